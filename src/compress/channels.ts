/**
 * Channels of a layer whose scale can move: the tensor that makes them is divided by it, the matrices that read them
 * are multiplied, and the model's results stay the same. SmoothQuant (arXiv 2211.10438) and AWQ (arXiv 2306.00978)
 * choose such scales, for different purposes.
 */

import type { MatrixRows, MatrixSpec, TensorSource } from "../backend/tensor-source.js";
import { factsOf } from "../model/description/architectures.js";
import type { AttentionMixer, FeedForward, Mixer } from "../model/description/model-description.js";
import { readRange } from "../model/description/read-rows.js";
import type { ServableModel } from "../model/description/servable.js";
import type { OpenModel } from "../model/open-model.js";

/** An input of matrices, and the maker of its values. Names are llama.cpp's. */
export interface Channels {
  /** A norm, whose gains are divided, or rows of a matrix and values of its bias, from `start` on. */
  readonly maker: { readonly norm: string } | { readonly matrix: string; readonly start: number };
  /** Every matrix that reads the input, under each of its possible names. */
  readonly readers: readonly string[];
  /** Columns of the readers. */
  readonly cols: number;
  readonly count: number;
  /** Query heads that share a value head share its channels. */
  channelOf(col: number): number;
}

/**
 * Channels of a layer. A sub-layer without a norm before it (olmo2) has none: its input is the residual stream, which
 * other matrices read too.
 */
export function channelsOf({ config, tensors }: OpenModel, layer: number): readonly Channels[] {
  const finder = new ChannelFinder(config, tensors(), layer);
  return [...finder.ofMixer(), ...finder.ofFeedForward()];
}

const ownChannels = (cols: number) => ({ cols, count: cols, channelOf: (col: number) => col });

/** The channels of one layer's parts. */
class ChannelFinder {
  constructor(
    private readonly config: ServableModel,
    private readonly source: TensorSource,
    private readonly layer: number,
  ) {}

  ofMixer(): readonly Channels[] {
    const { mixer } = this.config.layers[this.layer]!;
    const readers = mixer.kind === "none" ? FEED_FORWARD_READERS : MIXER_READERS[mixer.kind];
    return [...this.#ofNorm("attn_norm", readers), ...this.#within(mixer)];
  }

  ofFeedForward(): readonly Channels[] {
    const { layers, architecture, hasDenseBesideExperts } = this.config;
    const { feedForward } = layers[this.layer]!;
    if (feedForward.kind === "experts" && hasDenseBesideExperts) {
      return [
        ...this.#ofNorm("ffn_norm", DENSE_READERS),
        ...this.#ofNorm("pre_ffw_norm_2", EXPERT_READERS),
        ...this.#ofUp("", feedForward.sharedWidth, feedForward),
      ];
    }
    const norms = factsOf(architecture).isOnePart ? [] : this.#ofNorm("ffn_norm", FEED_FORWARD_READERS);
    const [end, width] = feedForward.kind === "dense" ? ["", feedForward.width] : ["_shexp", feedForward.sharedWidth];
    return [...norms, ...this.#ofUp(end, width, feedForward)];
  }

  #tensor(name: string): string {
    return `blk.${this.layer}.${name}.weight`;
  }

  #has(name: string): boolean {
    return this.source.has(this.#tensor(name));
  }

  #ofNorm(norm: string, readers: readonly string[]): readonly Channels[] {
    const { width, isPostNormed, isLayerNormed, parallel, normsSums } = this.config;
    if (isPostNormed || isLayerNormed || parallel !== undefined || normsSums) return [];
    const maker = { norm: this.#tensor(norm) };
    return [{ maker, readers: readers.map((name) => this.#tensor(name)), ...ownChannels(width) }];
  }

  /** Channels between a mixer's values and its output. */
  #within(mixer: Mixer): readonly Channels[] {
    switch (mixer.kind) {
      case "attention":
        // A norm of the values would undo their scales.
        return this.config.hasValueNorm ? [] : [this.#ofValues(mixer)];
      case "delta":
        // All heads of a recurrent layer share one norm.
        return [
          {
            ...this.#ofStates(mixer.numHeads * mixer.valueDim),
            count: mixer.valueDim,
            channelOf: (col) => col % mixer.valueDim,
          },
        ];
      case "mamba":
        // Behind the gate, only the norm's own channels are linear.
        return [this.#ofStates(mixer.numHeads * mixer.valueDim)];
      case "convolution": {
        // The gate after a convolution multiplies its outputs.
        const maker = { matrix: this.#tensor("shortconv.in_proj"), start: mixer.width };
        return [{ maker, readers: [this.#tensor("shortconv.out_proj")], ...ownChannels(mixer.width) }];
      }
      default:
        // Latent attention has its values in one matrix or stack with other projections.
        return [];
    }
  }

  #ofValues({ numHeads, numKvHeads, headDim }: AttentionMixer): Channels {
    const [numQueryRows, numKeyRows] = [numHeads * headDim, numKvHeads * headDim];
    const perKvHead = numQueryRows / numKvHeads;
    return {
      maker: this.#has("attn_qkv")
        ? { matrix: this.#tensor("attn_qkv"), start: numQueryRows + numKeyRows }
        : { matrix: this.#tensor("attn_v"), start: 0 },
      readers: [this.#tensor("attn_output")],
      cols: numQueryRows,
      count: numKeyRows,
      channelOf: (col) => Math.floor(col / perKvHead) * headDim + (col % headDim),
    };
  }

  #ofStates(cols: number): Channels {
    return { maker: { norm: this.#tensor("ssm_norm") }, readers: [this.#tensor("ssm_out")], ...ownChannels(cols) };
  }

  /**
   * A gated part is linear in its up projection, unless the projection is clamped. Each expert would have its own
   * channels.
   */
  #ofUp(end: string, width: number, { isGated }: FeedForward): readonly Channels[] {
    if (this.config.activation === "clampedSwiglu" || isGated === false || width === 0) return [];
    const maker = { matrix: this.#tensor(`ffn_up${end}`), start: this.#has(`ffn_gate${end}`) ? 0 : width };
    return [{ maker, readers: [this.#tensor(`ffn_down${end}`)], ...ownChannels(width) }];
  }
}

const MIXER_READERS: Readonly<Record<Exclude<Mixer["kind"], "none">, readonly string[]>> = {
  attention: ["attn_q", "attn_gate", "attn_k", "attn_v", "attn_qkv"],
  latent: ["attn_q", "attn_q_a", "attn_kv_a_mqa"],
  delta: ["attn_qkv", "attn_gate", "ssm_in", "ssm_ba", "ssm_alpha", "ssm_beta"],
  mamba: ["ssm_in"],
  convolution: ["shortconv.in_proj"],
};
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

/** Scales that were moved, and their application to the model. */
export class MovedScales {
  readonly #factors = new Map<string, Factors>();

  /** Divides the channels' maker by `scales` [count] and multiplies their readers. Call once per channels. */
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

  /** The scales are read when a tensor is read, since a layer's scales may be chosen just before. */
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
