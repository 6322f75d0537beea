/** Binds a model's tensors to weights of the backend; the source checks that every tensor is there and has the shape the config implies. */

import type { Backend, LoadReport, WeightSet } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER, type WeightHandle } from "../../backend/handles.js";
import type { MatrixSpec, TensorSource } from "../../backend/tensor-source.js";
import type { ServableLayer, ServableModel } from "../../model/description/servable.js";
import { keyWidth, queryWidth } from "../../model/description/sizes.js";

export interface Linear {
  /** [outputs, inputs] */
  readonly weight: WeightHandle;
  /** f32 [outputs] or NO_BUFFER */
  readonly bias: BufferHandle;
}

export interface LayerWeights {
  /** Norms before a sub-layer; undefined: it reads the residual stream itself (olmo2). */
  readonly attentionNorm: BufferHandle | undefined;
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  /** Norms of queries and keys: of each head, f32 [headDim] (qwen3, gemma3), or of all together (olmo2). */
  readonly queryNorm: BufferHandle | undefined;
  readonly keyNorm: BufferHandle | undefined;
  readonly attentionOutput: Linear;
  /** Norms after a sub-layer, before its residual is added (gemma2, gemma3, olmo2). */
  readonly attentionPostNorm: BufferHandle | undefined;
  readonly ffNorm: BufferHandle | undefined;
  readonly gate: Linear;
  readonly up: Linear;
  readonly down: Linear;
  readonly ffPostNorm: BufferHandle | undefined;
}

export interface ModelWeights {
  readonly embedding: WeightHandle;
  readonly layers: readonly LayerWeights[];
  /** undefined: heads without a norm of their own */
  readonly outputNorm: BufferHandle | undefined;
  readonly output: Linear;
  /** Divisors of the rope frequencies: all contexts, up to the original context, and beyond it. */
  readonly ropeFactors: Float32Array | undefined;
  readonly ropeFactorsShort: Float32Array | undefined;
  readonly ropeFactorsLong: Float32Array | undefined;
}

/** A model's tensors with their facts. */
type TensorSet = Omit<WeightSet, "matrices"> & { readonly source: TensorSource };

/**
 * Binds tensors. `bind` runs twice: first to list the matrices, then with the handles that the backend has placed them under.
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
  const placed = await backend.place({ ...tensors, matrices: plan.matrices }, report);
  return bind(new PlacedBinder(tensors.source, backend, placed));
}

export function bindModel(binder: Binder, config: ServableModel): ModelWeights {
  const { width, vocabSize } = config;
  const layers = config.layers.map((layer, index) => bindLayer(binder, layer, config, `blk.${index}.`));
  const embedding = binder.rows("token_embd", vocabSize, width);
  const output = binder.linear(binder.has("output.weight") ? "output" : "token_embd", vocabSize, width);
  const rope = (name: string) => (binder.has(name) ? binder.values(name, config.ropes[0]!.dim / 2) : undefined);
  return {
    embedding,
    layers,
    outputNorm: binder.vector("output_norm.weight", width),
    output,
    ropeFactors: rope("rope_freqs.weight"),
    ropeFactorsShort: rope("rope_factors_short.weight"),
    ropeFactorsLong: rope("rope_factors_long.weight"),
  };
}

/** @param prefix of the layer's tensor names */
function bindLayer(
  binder: Binder,
  layer: ServableLayer,
  { width, isPostNormed }: ServableModel,
  prefix: string,
): LayerWeights {
  const { headDim } = layer.mixer;
  const numQueryRows = queryWidth(layer);
  const numKeyRows = keyWidth(layer);
  const ffWidth = layer.feedForward.width;
  // phi3 fuses q, k and v into one matrix, and gate and up into another.
  const isQkvFused = binder.has(`${prefix}attn_qkv.weight`);
  const isGateFused = !binder.has(`${prefix}ffn_gate.weight`);
  const qkvRows = numQueryRows + 2 * numKeyRows;
  const part = (name: string, start: number, rows: number) =>
    isQkvFused
      ? binder.linear(`${prefix}attn_qkv`, qkvRows, width, start, rows)
      : binder.linear(`${prefix}${name}`, rows, width);
  const up = (start: number) =>
    isGateFused
      ? binder.linear(`${prefix}ffn_up`, 2 * ffWidth, width, start, ffWidth)
      : binder.linear(`${prefix}${start === 0 ? "ffn_gate" : "ffn_up"}`, ffWidth, width);
  const normBefore = (name: string) => (isPostNormed ? undefined : binder.vector(`${prefix}${name}.weight`, width));
  const normOf = (name: string, length: number) =>
    isPostNormed
      ? binder.vector(`${prefix}${name}.weight`, length)
      : binder.optionalVector(`${prefix}${name}.weight`, length);
  return {
    attentionNorm: normBefore("attn_norm"),
    query: part("attn_q", 0, numQueryRows),
    key: part("attn_k", numQueryRows, numKeyRows),
    value: part("attn_v", numQueryRows + numKeyRows, numKeyRows),
    queryNorm: normOf("attn_q_norm", isPostNormed ? numQueryRows : headDim),
    keyNorm: normOf("attn_k_norm", isPostNormed ? numKeyRows : headDim),
    attentionOutput: binder.linear(`${prefix}attn_output`, width, numQueryRows),
    attentionPostNorm: normOf("post_attention_norm", width),
    ffNorm: normBefore("ffn_norm"),
    gate: up(0),
    up: up(ffWidth),
    down: binder.linear(`${prefix}ffn_down`, width, ffWidth),
    ffPostNorm: normOf("post_ffw_norm", width),
  };
}

/** Takes tensors one by one, in the order of the forward pass. */
export interface Binder {
  has(name: string): boolean;
  /** Rows [start, start + rows) of the matrix `<name>.weight` [totalRows, cols], and the same part of `<name>.bias` if it exists. */
  linear(name: string, totalRows: number, cols: number, start?: number, rows?: number): Linear;
  /** A matrix that keeps its stored values: for row look-ups or exact products. */
  rows(name: string, rows: number, cols: number): WeightHandle;
  vector(name: string, length: number): BufferHandle;
  optionalVector(name: string, length: number): BufferHandle | undefined;
  values(name: string, length: number): Float32Array;
}

/** Only lists the matrices, so that the backend can place all of them at once. */
class MatrixPlan implements Binder {
  readonly matrices: MatrixSpec[] = [];

  constructor(private readonly source: TensorSource) {}

  has(name: string): boolean {
    return this.source.has(name);
  }

  linear(name: string, totalRows: number, cols: number, start = 0, rows = totalRows): Linear {
    this.matrices.push({ name: `${name}.weight`, totalRows, cols, start, rows });
    return { weight: 0 as WeightHandle, bias: NO_BUFFER };
  }

  rows(name: string, rows: number, cols: number): WeightHandle {
    this.matrices.push({ name: `${name}.weight`, totalRows: rows, cols, start: 0, rows, keepsValues: true });
    return 0 as WeightHandle;
  }

  vector(): BufferHandle {
    return NO_BUFFER;
  }

  optionalVector(): undefined {
    return undefined;
  }

  values(): Float32Array {
    return new Float32Array();
  }
}

class PlacedBinder implements Binder {
  #numBound = 0;

  /** @param placed handles of the plan's matrices, in the same order */
  constructor(
    private readonly source: TensorSource,
    private readonly backend: Backend,
    private readonly placed: readonly WeightHandle[],
  ) {}

  has(name: string): boolean {
    return this.source.has(name);
  }

  linear(name: string, totalRows: number, _cols: number, start = 0, rows = totalRows): Linear {
    const weight = this.rows();
    if (!this.has(`${name}.bias`)) return { weight, bias: NO_BUFFER };
    return { weight, bias: this.#upload(this.values(`${name}.bias`, totalRows).subarray(start, start + rows)) };
  }

  rows(): WeightHandle {
    return this.placed[this.#numBound++]!;
  }

  optionalVector(name: string, length: number): BufferHandle | undefined {
    return this.has(name) ? this.vector(name, length) : undefined;
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
