/**
 * Channels of a layer whose scale can move: the tensor that makes them is divided by it, the matrices that read them
 * are multiplied, and the model computes what it did. SmoothQuant (arXiv 2211.10438) and AWQ (arXiv 2306.00978) choose
 * such scales, each for a purpose of its own.
 */

import type { MatrixRows, MatrixSpec, TensorSource } from "../backend/tensor-source.js";
import { factsOf } from "../model/description/architectures.js";
import type { AttentionMixer, ConvolutionMixer, DeltaMixer } from "../model/description/model-description.js";
import { readRange } from "../model/description/read-rows.js";
import type { OpenModel } from "../model/open-model.js";

/** An input of matrices, and what makes its values. Names are llama.cpp's. */
export interface Channels {
  /** A norm, whose gains are divided, or rows of a matrix and values of its bias, from `start` on. */
  readonly maker: { readonly norm: string } | { readonly matrix: string; readonly start: number };
  /** Every matrix that reads the input, under each name that files have for it. */
  readonly readers: readonly string[];
  /** Columns of the readers. */
  readonly cols: number;
  readonly count: number;
  /** Query heads that share a value head share its channels. */
  channelOf(col: number): number;
}

/**
 * Channels of a layer. Where no norm stands before a sub-layer (olmo2), its input is the residual stream, which others
 * read too: it has none.
 */
export function channelsOf({ config, tensors }: OpenModel, layer: number): readonly Channels[] {
  const { width, isPostNormed, isLayerNormed, isParallel, normsSums, activation, hasValueNorm, hasDenseBesideExperts } =
    config;
  const { feedForward, mixer } = config.layers[layer]!;
  const { isOnePart } = factsOf(config.architecture);
  const source = tensors();
  const tensor = (name: string): string => `blk.${layer}.${name}.weight`;
  const has = (name: string): boolean => source.has(tensor(name));
  const own = (cols: number) => ({ cols, count: cols, channelOf: (col: number) => col });
  const ofNorm = (norm: string, readers: readonly string[]): readonly Channels[] =>
    isPostNormed || isLayerNormed || isParallel || normsSums
      ? []
      : [{ maker: { norm: tensor(norm) }, readers: readers.map(tensor), ...own(width) }];
  const ofValues = ({ numHeads, numKvHeads, headDim }: AttentionMixer): Channels => {
    const [numQueryRows, numKeyRows] = [numHeads * headDim, numKvHeads * headDim];
    const perKvHead = numQueryRows / numKvHeads;
    return {
      maker: has("attn_qkv")
        ? { matrix: tensor("attn_qkv"), start: numQueryRows + numKeyRows }
        : { matrix: tensor("attn_v"), start: 0 },
      readers: [tensor("attn_output")],
      cols: numQueryRows,
      count: numKeyRows,
      channelOf: (col) => Math.floor(col / perKvHead) * headDim + (col % headDim),
    };
  };
  // All heads of a recurrent layer have one norm.
  const ofHeads = ({ numHeads, valueDim }: DeltaMixer): Channels => ({
    maker: { norm: tensor("ssm_norm") },
    readers: [tensor("ssm_out")],
    cols: numHeads * valueDim,
    count: valueDim,
    channelOf: (col) => col % valueDim,
  });
  // The gate behind a convolution multiplies its outputs.
  const ofConvolved = ({ width: cols }: ConvolutionMixer): Channels => ({
    maker: { matrix: tensor("shortconv.in_proj"), start: cols },
    readers: [tensor("shortconv.out_proj")],
    ...own(cols),
  });
  // What meets latent attention's values is in one matrix with them, or in one stack: they have no channels of their
  // own.
  const ofMixer = (): { readonly readers: readonly string[]; readonly channels?: Channels } => {
    if (mixer.kind === "latent") return { readers: LATENT_READERS };
    if (mixer.kind === "none") return { readers: FEED_FORWARD_READERS };
    // The gate before the norm makes no channel linear but the norm's own.
    if (mixer.kind === "mamba") {
      const maker = { norm: tensor("ssm_norm") };
      return {
        readers: ["ssm_in"],
        channels: { maker, readers: [tensor("ssm_out")], ...own(mixer.numHeads * mixer.valueDim) },
      };
    }
    if (mixer.kind === "delta") return { readers: RECURRENT_READERS, channels: ofHeads(mixer) };
    if (mixer.kind === "attention") return { readers: ATTENTION_READERS, channels: ofValues(mixer) };
    return { readers: ["shortconv.in_proj"], channels: ofConvolved(mixer) };
  };
  const { readers, channels } = ofMixer();
  // A gated part is linear in its up projection, unless that is clamped. Each expert would have channels of its own.
  const ofUp = (end: string, width: number): readonly Channels[] => {
    if (activation === "clampedSwiglu" || feedForward.isGated === false || feedForward.width === 0) return [];
    const start = has(`ffn_gate${end}`) ? 0 : width;
    return [{ maker: { matrix: tensor(`ffn_up${end}`), start }, readers: [tensor(`ffn_down${end}`)], ...own(width) }];
  };
  const inner =
    feedForward.kind === "dense"
      ? ofUp("", feedForward.width)
      : feedForward.sharedWidth > 0
        ? ofUp(hasDenseBesideExperts ? "" : "_shexp", feedForward.sharedWidth)
        : [];
  return [
    ...ofNorm("attn_norm", readers),
    // A norm of values would undo their scales.
    ...(hasValueNorm || channels === undefined ? [] : [channels]),
    ...(hasDenseBesideExperts && feedForward.kind === "experts"
      ? [...ofNorm("ffn_norm", DENSE_READERS), ...ofNorm("pre_ffw_norm_2", EXPERT_READERS)]
      : isOnePart
        ? []
        : ofNorm("ffn_norm", FEED_FORWARD_READERS)),
    ...inner,
  ];
}

const ATTENTION_READERS: readonly string[] = ["attn_q", "attn_k", "attn_v", "attn_qkv"];
const LATENT_READERS: readonly string[] = ["attn_q", "attn_q_a", "attn_kv_a_mqa"];
const RECURRENT_READERS: readonly string[] = ["attn_qkv", "attn_gate", "ssm_in", "ssm_ba", "ssm_alpha", "ssm_beta"];
const DENSE_READERS: readonly string[] = ["ffn_gate", "ffn_up"];
const EXPERT_READERS: readonly string[] = ["ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"];
const FEED_FORWARD_READERS: readonly string[] = [
  ...DENSE_READERS,
  "ffn_gate_inp",
  "ffn_gate_inp_shexp",
  ...EXPERT_READERS,
  "ffn_gate_shexp",
  "ffn_up_shexp",
];

/** Factors of a tensor's rows (or of a vector's values) from `start` on, and of its columns. */
interface Factors {
  readonly rows?: { readonly start: number; readonly factors: Float32Array };
  readonly cols?: Float32Array;
}

/** Scales that were moved, and the model that has them. */
export class MovedScales {
  readonly #factors = new Map<string, Factors>();

  /** Divides the channels' maker by `scales` [count] and multiplies their readers. Channels are moved once. */
  move({ maker, readers, cols, channelOf }: Channels, scales: Float32Array): void {
    const divided = { rows: { start: "norm" in maker ? 0 : maker.start, factors: scales.map((scale) => 1 / scale) } };
    if ("norm" in maker) this.#add(maker.norm, divided);
    else {
      this.#add(maker.matrix, divided);
      this.#add(maker.matrix.replace(/\.weight$/, ".bias"), divided);
    }
    const perColumn = Float32Array.from({ length: cols }, (_, col) => scales[channelOf(col)]!);
    for (const reader of readers) this.#add(reader, { cols: perColumn });
  }

  /** The factors of a matrix's columns. @param name with or without `.weight` */
  columnsOf(name: string): Float32Array | undefined {
    return this.#factors.get(name.endsWith(".weight") ? name : `${name}.weight`)?.cols;
  }

  /** Reads the scales when its tensors are read: those of a layer may be chosen just before. */
  applyTo(model: OpenModel): OpenModel {
    return {
      ...model,
      tensors: () => {
        const source = model.tensors();
        return {
          has: (name) => source.has(name),
          expectNoOthers: (names) => source.expectNoOthers(names),
          values: (name, length, count) => this.#values(source, name, length, count),
          matrix: (spec) => this.#matrix(source, spec),
        };
      },
    };
  }

  #add(name: string, more: Factors): void {
    this.#factors.set(name, { ...this.#factors.get(name), ...more });
  }

  #values(source: TensorSource, name: string, length: number, count?: number): Float32Array {
    const values = source.values(name, length, count);
    const rows = this.#factors.get(name)?.rows;
    if (rows === undefined) return values;
    const scaled = values.slice();
    for (const [i, factor] of rows.factors.entries()) scaled[rows.start + i]! *= factor;
    return scaled;
  }

  #matrix(source: TensorSource, spec: MatrixSpec): MatrixRows {
    const factors = this.#factors.get(spec.name);
    if (factors === undefined) return source.matrix(spec);
    const convert = (target: ArrayBuffer): void => {
      const { cols, start, rows: count } = spec;
      const values = readRange(source, spec);
      const { rows, cols: ofColumns } = factors;
      for (let row = 0, at = 0; row < count; row++) {
        const ofRow = rows?.factors[start + row - rows.start] ?? 1;
        for (let col = 0; col < cols; col++, at++) values[at]! *= ofRow * (ofColumns?.[col] ?? 1);
      }
      new Float32Array(target).set(values);
    };
    return { type: "F32", convert };
  }
}
