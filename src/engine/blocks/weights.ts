/**
 * Binds a model's tensors to weights of the backend; the source checks that every tensor is there and has the shape the
 * config implies.
 */

import type { Backend, LoadReport, WeightSet } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER, type WeightHandle, type WeightStackHandle } from "../../backend/handles.js";
import { type MatrixSpec, type TensorSource, unstacked } from "../../backend/tensor-source.js";
import type { DenseFeedForward, ExpertsFeedForward } from "../../model/description/model-description.js";
import type { ServableLayer, ServableModel } from "../../model/description/servable.js";
import { keyWidth, queryWidth } from "../../model/description/sizes.js";

export interface Linear {
  /** [outputs, inputs] */
  readonly weight: WeightHandle;
  /** f32 [outputs] or NO_BUFFER */
  readonly bias: BufferHandle;
}

/** A linear layer of each expert. */
interface LinearStack {
  /** [experts, outputs, inputs] */
  readonly weights: WeightStackHandle;
  /** f32 [experts, outputs] or NO_BUFFER */
  readonly biases: BufferHandle;
}

/** A norm's parameters, f32 [width]. */
export interface NormWeights {
  readonly gain: BufferHandle;
  /** Bias of a LayerNorm, or NO_BUFFER; absent: the norm is an RMS norm. */
  readonly bias?: BufferHandle;
}

export interface DenseWeights {
  readonly kind: "dense";
  readonly width: number;
  /** undefined: the part has no gate */
  readonly gate: Linear | undefined;
  readonly up: Linear;
  readonly down: Linear;
}

interface GatedWeights extends DenseWeights {
  readonly gate: Linear;
}

export interface ExpertWeights {
  readonly kind: "experts";
  readonly part: ExpertsFeedForward;
  /** [experts, width]; keeps its values */
  readonly router: Linear;
  /** undefined: the experts have no gates */
  readonly gates: LinearStack | undefined;
  readonly ups: LinearStack;
  readonly downs: LinearStack;
  /** Added to the router's scores, f32 [experts]. */
  readonly scoreBias: BufferHandle | undefined;
  /** Added once to the weighted sum of a token's experts, f32 [width] (nomic-bert-moe). */
  readonly sumBias: BufferHandle | undefined;
  /** The part that every token passes. */
  readonly shared: GatedWeights | undefined;
}

export interface LayerWeights {
  /** Norms before a sub-layer; undefined: it reads the residual stream itself (olmo2). */
  readonly attentionNorm: NormWeights | undefined;
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  /**
   * A second input of queries, keys and values, to whose products with these matrices those of the residual stream are
   * added (EAGLE-3).
   */
  readonly besides?: BesidesWeights;
  /** Norms of queries and keys: of each head, f32 [headDim] (qwen3, gemma3), or of all together (olmo2). */
  readonly queryNorm: NormWeights | undefined;
  readonly keyNorm: NormWeights | undefined;
  /** f32 [numHeads] */
  readonly sinks: BufferHandle | undefined;
  readonly attentionOutput: Linear;
  /** Norms after a sub-layer, before its residual is added (gemma2, gemma3, olmo2). */
  readonly attentionPostNorm: NormWeights | undefined;
  /** Norms of the sum of a sub-layer and its input (bert). */
  readonly attentionSumNorm: NormWeights | undefined;
  readonly ffNorm: NormWeights | undefined;
  readonly feedForward: DenseWeights | ExpertWeights;
  readonly ffPostNorm: NormWeights | undefined;
  readonly ffSumNorm: NormWeights | undefined;
}

interface BesidesWeights extends Pick<LayerWeights, "query" | "key" | "value"> {
  /** f32 [rows, width] */
  readonly input: BufferHandle;
}

export interface ModelWeights {
  readonly embedding: WeightHandle;
  /**
   * Added to a token's embedding by its position, and by the text that it is in; undefined: the model has no such
   * table.
   */
  readonly positions: WeightHandle | undefined;
  readonly tokenTypes: WeightHandle | undefined;
  readonly embeddingNorm: NormWeights | undefined;
  readonly layers: readonly LayerWeights[];
  /** undefined: heads without a norm of their own */
  readonly outputNorm: NormWeights | undefined;
  /** undefined: an encoder, which has no logits */
  readonly output: Linear | undefined;
  /** Tokens that the rows of the output matrix stand for, i32 [numRows]; absent: row i stands for token i. */
  readonly outputTokens?: { readonly ids: BufferHandle; readonly numRows: number } | undefined;
  /** Divisors of the rope frequencies: all contexts, up to the original context, and beyond it. */
  readonly ropeFactors: Float32Array | undefined;
  readonly ropeFactorsShort: Float32Array | undefined;
  readonly ropeFactorsLong: Float32Array | undefined;
}

/** A model's tensors with their facts. */
interface TensorSet extends Omit<WeightSet, "matrices"> {
  readonly source: TensorSource;
  /**
   * Whether every linear layer and every LayerNorm must have a bias; absent: biases are used where the file has them.
   */
  readonly areBiased?: boolean;
  /** Names of tensors that other code reads. */
  readonly otherNames?: readonly string[];
}

/**
 * Binds tensors. `bind` runs twice: first to list the matrices, then with the handles that the backend has placed them
 * under.
 * @returns the result of the second run
 */
export async function bindTensors<T>(
  tensors: TensorSet,
  backend: Backend,
  report: LoadReport,
  bind: (binder: Binder) => T,
): Promise<T> {
  const plan = new MatrixPlan(tensors.source);
  bind(plan);
  const { otherNames = [], areBiased = false, ...set } = tensors;
  tensors.source.expectNoOthers(new Set([...plan.names, ...otherNames]));
  const placed = await backend.place({ ...set, matrices: plan.matrices }, report);
  return bind(new PlacedBinder(tensors.source, backend, placed, areBiased));
}

export function bindModel(binder: Binder, config: ServableModel): ModelWeights {
  const { width, vocabSize } = config;
  const layers = config.layers.map((layer, index) => bindLayer(binder, layer, config, `blk.${index}.`));
  const embedding = binder.rows("token_embd", vocabSize, width);
  const { positionTable: table, numTokenTypes } = config;
  const positions =
    table && binder.rows("position_embd", table.numRows - table.firstRow, width, table.firstRow, table.numRows);
  const tokenTypes = numTokenTypes === 0 ? undefined : binder.rows("token_types", numTokenTypes, width);
  const output = config.isCausal
    ? binder.linear(binder.has("output.weight") ? "output" : "token_embd", vocabSize, width)
    : undefined;
  const [ofAll] = config.ropes;
  const rope = (name: string) => (ofAll && binder.has(name) ? binder.values(name, ofAll.dim / 2) : undefined);
  return {
    embedding,
    positions,
    tokenTypes,
    embeddingNorm: config.hasEmbeddingNorm ? bindNorm(binder, "token_embd_norm", width, config) : undefined,
    layers,
    outputNorm: config.normsSums ? undefined : bindNorm(binder, "output_norm", width, config),
    output,
    ropeFactors: rope("rope_freqs.weight"),
    ropeFactorsShort: rope("rope_factors_short.weight"),
    ropeFactorsLong: rope("rope_factors_long.weight"),
  };
}

function bindNorm(binder: Binder, name: string, width: number, { isLayerNormed }: ServableModel): NormWeights {
  const gain = binder.vector(`${name}.weight`, width);
  return isLayerNormed ? { gain, bias: binder.optionalVector(`${name}.bias`, width) ?? NO_BUFFER } : { gain };
}

/** @param prefix of the layer's tensor names */
function bindLayer(binder: Binder, layer: ServableLayer, config: ServableModel, prefix: string): LayerWeights {
  const { width, isPostNormed, hasHeadNorms, hasPostNorms, normsSums, isLayerNormed, hasSinks } = config;
  const { headDim } = layer.mixer;
  const numQueryRows = queryWidth(layer);
  const numKeyRows = keyWidth(layer);
  // phi3 fuses q, k and v into one matrix.
  const isQkvFused = binder.has(`${prefix}attn_qkv.weight`);
  const qkvRows = numQueryRows + 2 * numKeyRows;
  const part = (name: string, start: number, rows: number) =>
    isQkvFused
      ? binder.linear(`${prefix}attn_qkv`, qkvRows, width, start, rows)
      : binder.linear(`${prefix}${name}`, rows, width);
  const norm = (name: string, length: number) => bindNorm(binder, `${prefix}${name}`, length, config);
  const optionalNorm = (name: string, length: number) =>
    binder.has(`${prefix}${name}.weight`) ? norm(name, length) : undefined;
  const headNorm = hasHeadNorms ? norm : optionalNorm;
  const postNorm = hasPostNorms ? norm : optionalNorm;
  // The first layer of modern-bert reads the normed embeddings as they are.
  const isFirstPlain = isLayerNormed && prefix === "blk.0.";
  const normBefore = (name: string) => (isPostNormed || normsSums ? undefined : norm(name, width));
  const normOfSum = (name: string) => (normsSums ? norm(name, width) : undefined);
  return {
    attentionNorm: isFirstPlain ? optionalNorm("attn_norm", width) : normBefore("attn_norm"),
    query: part("attn_q", 0, numQueryRows),
    key: part("attn_k", numQueryRows, numKeyRows),
    value: part("attn_v", numQueryRows + numKeyRows, numKeyRows),
    queryNorm: headNorm("attn_q_norm", isPostNormed ? numQueryRows : headDim),
    keyNorm: headNorm("attn_k_norm", isPostNormed ? numKeyRows : headDim),
    sinks: hasSinks ? binder.vector(`${prefix}attn_sinks.weight`, layer.mixer.numHeads) : undefined,
    attentionOutput: binder.linear(`${prefix}attn_output`, width, numQueryRows),
    attentionPostNorm: postNorm("post_attention_norm", width),
    attentionSumNorm: normOfSum("attn_output_norm"),
    ffNorm: normBefore("ffn_norm"),
    feedForward:
      layer.feedForward.kind === "dense"
        ? bindDense(binder, layer.feedForward, width, prefix)
        : bindExperts(binder, layer.feedForward, config, prefix),
    ffPostNorm: postNorm("post_ffw_norm", width),
    ffSumNorm: normOfSum("layer_output_norm"),
  };
}

function bindDense(binder: Binder, part: DenseFeedForward, width: number, prefix: string): DenseWeights {
  const { width: ffWidth } = part;
  const isGated = part.isGated ?? true;
  // phi3 fuses gate and up into one matrix.
  const isFused = isGated && !binder.has(`${prefix}ffn_gate.weight`);
  const up = (start: number) =>
    isFused
      ? binder.linear(`${prefix}ffn_up`, 2 * ffWidth, width, start, ffWidth)
      : binder.linear(`${prefix}${start === 0 ? "ffn_gate" : "ffn_up"}`, ffWidth, width);
  return {
    kind: "dense",
    width: ffWidth,
    gate: isGated ? up(0) : undefined,
    up: up(ffWidth),
    down: binder.linear(`${prefix}ffn_down`, width, ffWidth),
  };
}

function bindExperts(
  binder: Binder,
  part: ExpertsFeedForward,
  { width, hasExpertBiases: isBiased, routing }: ServableModel,
  prefix: string,
): ExpertWeights {
  const { count, width: ffWidth, sharedWidth } = part;
  const shared = (name: string, rows: number, cols: number) => binder.linear(`${prefix}ffn_${name}_shexp`, rows, cols);
  const inputs = { count, cols: width, isBiased };
  const sumBias = `${prefix}ffn_exps.bias`;
  // Newer files fuse each expert's gate and up.
  const isFused = binder.has(`${prefix}ffn_gate_up_exps.weight`);
  const up = (start: number) =>
    isFused
      ? binder.stack(`${prefix}ffn_gate_up_exps`, { ...inputs, totalRows: 2 * ffWidth, start, rows: ffWidth })
      : binder.stack(`${prefix}${start === 0 ? "ffn_gate_exps" : "ffn_up_exps"}`, { ...inputs, totalRows: ffWidth });
  return {
    kind: "experts",
    part,
    router: binder.exact(`${prefix}ffn_gate_inp`, count, width, isBiased),
    gates: part.isGated === false ? undefined : up(0),
    ups: up(ffWidth),
    downs: binder.stack(`${prefix}ffn_down_exps`, { count, totalRows: width, cols: ffWidth, isBiased }),
    scoreBias: routing.hasBias ? binder.vector(`${prefix}exp_probs_b.bias`, count) : undefined,
    sumBias: binder.has(sumBias) ? binder.vector(sumBias, width) : undefined,
    shared:
      sharedWidth === 0
        ? undefined
        : {
            kind: "dense",
            width: sharedWidth,
            gate: shared("gate", sharedWidth, width),
            up: shared("up", sharedWidth, width),
            down: shared("down", width, sharedWidth),
          },
  };
}

/** Rows [start, start + rows) of each of `count` matrices [totalRows, cols]; without start and rows: all of them. */
interface StackPart {
  readonly count: number;
  readonly totalRows: number;
  readonly cols: number;
  readonly start?: number;
  readonly rows?: number;
  /** Each has a bias. */
  readonly isBiased: boolean;
}

/** Takes tensors one by one, in the order of the forward pass. */
export interface Binder {
  has(name: string): boolean;
  /**
   * Rows [start, start + rows) of the matrix `<name>.weight` [totalRows, cols], and the same part of `<name>.bias` if
   * it exists.
   */
  linear(name: string, totalRows: number, cols: number, start?: number, rows?: number): Linear;
  /** A part of the matrices that `<name>.weight` stacks, and the same part of `<name>.bias` where they are biased. */
  stack(name: string, part: StackPart): LinearStack;
  /** For exact products: the matrix keeps its stored values. @param isBiased it has a bias */
  exact(name: string, rows: number, cols: number, isBiased: boolean): Linear;
  /** Rows [start, start + rows) of a matrix that keep their stored values: for row look-ups. */
  rows(name: string, rows: number, cols: number, start?: number, totalRows?: number): WeightHandle;
  vector(name: string, length: number): BufferHandle;
  /** A bias of a norm. */
  optionalVector(name: string, length: number): BufferHandle | undefined;
  values(name: string, length: number): Float32Array;
}

/** Only lists the tensors, so that the backend can place all matrices at once. */
class MatrixPlan implements Binder {
  readonly matrices: MatrixSpec[] = [];
  /** Names of all tensors that the loader takes. */
  readonly names = new Set<string>();

  constructor(private readonly source: TensorSource) {}

  has(name: string): boolean {
    return this.source.has(name);
  }

  linear(name: string, totalRows: number, cols: number, start = 0, rows = totalRows): Linear {
    this.#add({ name: `${name}.weight`, totalRows, cols, start, rows });
    this.names.add(`${name}.bias`);
    return { weight: 0 as WeightHandle, bias: NO_BUFFER };
  }

  stack(name: string, { count, totalRows, cols, start = 0, rows = totalRows, isBiased }: StackPart): LinearStack {
    for (let e = 0; e < count; e++) {
      const spec = { name: `${name}.weight`, totalRows: count * totalRows, cols, start: e * totalRows + start, rows };
      this.#add({ ...spec, numStacked: count });
    }
    if (isBiased) this.names.add(`${name}.bias`);
    return { weights: 0 as WeightStackHandle, biases: NO_BUFFER };
  }

  exact(name: string, rows: number, cols: number, isBiased: boolean): Linear {
    if (isBiased) this.names.add(`${name}.bias`);
    return { weight: this.rows(name, rows, cols), bias: NO_BUFFER };
  }

  rows(name: string, rows: number, cols: number, start = 0, totalRows = rows): WeightHandle {
    this.#add({ name: `${name}.weight`, totalRows, cols, start, rows, keepsValues: true });
    return 0 as WeightHandle;
  }

  vector(name: string): BufferHandle {
    this.names.add(name);
    return NO_BUFFER;
  }

  optionalVector(name: string): undefined {
    this.names.add(name);
  }

  values(name: string): Float32Array {
    this.names.add(name);
    return new Float32Array();
  }

  #add(spec: MatrixSpec): void {
    this.matrices.push(spec);
    this.names.add(spec.name);
    if (spec.numStacked !== undefined) this.names.add(unstacked(spec).name);
  }
}

class PlacedBinder implements Binder {
  #numBound = 0;

  /** @param placed handles of the plan's matrices, in the same order */
  constructor(
    private readonly source: TensorSource,
    private readonly backend: Backend,
    private readonly placed: readonly WeightHandle[],
    private readonly areBiased: boolean,
  ) {}

  has(name: string): boolean {
    return this.source.has(name);
  }

  linear(name: string, totalRows: number, _cols: number, start = 0, rows = totalRows): Linear {
    const isBiased = this.areBiased || this.has(`${name}.bias`);
    return { weight: this.rows(), bias: this.#biases(name, isBiased, totalRows, start, rows) };
  }

  exact(name: string, rows: number, _cols: number, isBiased: boolean): Linear {
    return { weight: this.rows(), bias: this.#biases(name, isBiased, rows, 0, rows) };
  }

  stack(name: string, { count, totalRows, start = 0, rows = totalRows, isBiased }: StackPart): LinearStack {
    const weights = this.backend.stack(Array.from({ length: count }, () => this.rows()));
    return { weights, biases: this.#biases(name, isBiased, totalRows, start, rows, count) };
  }

  /** Values [start, start + rows) of each of `count` vectors; undefined: of one that is no stack. */
  #biases(
    name: string,
    isBiased: boolean,
    totalRows: number,
    start: number,
    rows: number,
    count?: number,
  ): BufferHandle {
    if (!isBiased) return NO_BUFFER;
    const all = this.source.values(`${name}.bias`, totalRows, count);
    const wanted = Float32Array.from({ length: rows * (count ?? 1) }, (_, i) => {
      const index = Math.floor(i / rows);
      return all[index * totalRows + start + (i % rows)]!;
    });
    return this.#upload(wanted);
  }

  rows(): WeightHandle {
    return this.placed[this.#numBound++]!;
  }

  optionalVector(name: string, length: number): BufferHandle | undefined {
    return this.areBiased || this.has(name) ? this.vector(name, length) : undefined;
  }

  vector(name: string, length: number): BufferHandle {
    return this.#upload(this.values(name, length));
  }

  values(name: string, length: number): Float32Array {
    return this.source.values(name, length);
  }

  #upload(values: Float32Array): BufferHandle {
    const buffer = this.backend.allocate(values.byteLength);
    this.backend.write(buffer, 0, values);
    return buffer;
  }
}
