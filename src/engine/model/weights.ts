/** Binds a model file's tensors to device weights, checking that every tensor is there and has the shape the config implies. */
import { closeSync, openSync, readSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";
import type { GgufFile, GgufTensor, TensorType } from "../../formats/gguf/types.js";
import { dequantizeRow } from "../../kernels/dequantize.js";
import type { BufferHandle, Device, FileHandle, WeightHandle } from "../../kernels/kernels.js";
import { NO_BUFFER } from "../../kernels/kernels.js";
import type { ModelConfig } from "./config.js";

export interface Linear {
  /** [outputs, inputs] */
  readonly weight: WeightHandle;
  /** f32 [outputs] or NO_BUFFER */
  readonly bias: BufferHandle;
}

export interface LayerWeights {
  readonly attentionNorm: BufferHandle;
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  /** Per-head norms of queries and keys (qwen3, gemma3), f32 [headDim]. */
  readonly queryNorm: BufferHandle | undefined;
  readonly keyNorm: BufferHandle | undefined;
  readonly attentionOutput: Linear;
  /** Norms after a sub-layer, before its residual is added (gemma3). */
  readonly attentionPostNorm: BufferHandle | undefined;
  readonly ffNorm: BufferHandle;
  readonly gate: Linear;
  readonly up: Linear;
  readonly down: Linear;
  readonly ffPostNorm: BufferHandle | undefined;
}

export interface ModelWeights {
  readonly embedding: WeightHandle;
  readonly layers: readonly LayerWeights[];
  readonly outputNorm: BufferHandle;
  readonly output: Linear;
  /** Divisors of the rope frequencies: all contexts, up to the original context, and beyond it. */
  readonly ropeFactors: Float32Array | undefined;
  readonly ropeFactorsShort: Float32Array | undefined;
  readonly ropeFactorsLong: Float32Array | undefined;
}

export function bindWeights(gguf: GgufFile, config: ModelConfig, device: Device): ModelWeights {
  const binder = new Binder(gguf, device);
  const { width, vocabSize } = config;
  const layers = config.layers.map((_, index) => bindLayer(binder, config, `blk.${index}.`));
  const embedding = binder.linear("token_embd", vocabSize, width);
  const output = binder.has("output.weight") ? binder.linear("output", vocabSize, width) : embedding;
  const rope = (name: string) => (binder.has(name) ? binder.values(name, config.ropes[0]!.dim / 2) : undefined);
  return {
    embedding: embedding.weight,
    layers,
    outputNorm: binder.vector("output_norm.weight", width),
    output,
    ropeFactors: rope("rope_freqs.weight"),
    ropeFactorsShort: rope("rope_factors_short.weight"),
    ropeFactorsLong: rope("rope_factors_long.weight"),
  };
}

function bindLayer(binder: Binder, config: ModelConfig, prefix: string): LayerWeights {
  const { width, ffWidth, headDim } = config;
  const queryWidth = config.numHeads * headDim;
  const kvWidth = config.numKvHeads * headDim;
  // phi3 stores q, k and v as one matrix, and gate above up as another.
  const isQkvFused = binder.has(`${prefix}attn_qkv.weight`);
  const isGateFused = !binder.has(`${prefix}ffn_gate.weight`);
  const qkvRows = queryWidth + 2 * kvWidth;
  const part = (name: string, start: number, rows: number) =>
    isQkvFused
      ? binder.linear(`${prefix}attn_qkv`, qkvRows, width, start, rows)
      : binder.linear(`${prefix}${name}`, rows, width);
  const up = (start: number) =>
    isGateFused
      ? binder.linear(`${prefix}ffn_up`, 2 * ffWidth, width, start, ffWidth)
      : binder.linear(`${prefix}${start === 0 ? "ffn_gate" : "ffn_up"}`, ffWidth, width);
  return {
    attentionNorm: binder.vector(`${prefix}attn_norm.weight`, width),
    query: part("attn_q", 0, queryWidth),
    key: part("attn_k", queryWidth, kvWidth),
    value: part("attn_v", queryWidth + kvWidth, kvWidth),
    queryNorm: binder.optionalVector(`${prefix}attn_q_norm.weight`, headDim),
    keyNorm: binder.optionalVector(`${prefix}attn_k_norm.weight`, headDim),
    attentionOutput: binder.linear(`${prefix}attn_output`, width, queryWidth),
    attentionPostNorm: binder.optionalVector(`${prefix}post_attention_norm.weight`, width),
    ffNorm: binder.vector(`${prefix}ffn_norm.weight`, width),
    gate: up(0),
    up: up(ffWidth),
    down: binder.linear(`${prefix}ffn_down`, width, ffWidth),
    ffPostNorm: binder.optionalVector(`${prefix}post_ffw_norm.weight`, width),
  };
}

class Binder {
  readonly #files: FileHandle[];

  constructor(
    private readonly gguf: GgufFile,
    private readonly device: Device,
  ) {
    this.#files = gguf.shards.map((shard) => device.mapFile(shard.path));
  }

  has(name: string): boolean {
    return this.gguf.tensors.has(name);
  }

  /** Rows [start, start + rows) of the matrix `<name>.weight` [totalRows, cols], with the same part of `<name>.bias` if there is one. */
  linear(name: string, totalRows: number, cols: number, start = 0, rows = totalRows): Linear {
    const tensor = this.#tensor(`${name}.weight`, [cols, totalRows]);
    const rowBytes = tensor.byteLength / totalRows;
    const file = this.#files[tensor.shard]!;
    const weight = this.device.createWeight(file, tensor.byteOffset + start * rowBytes, tensor.type, rows, cols);
    if (!this.has(`${name}.bias`)) return { weight, bias: NO_BUFFER };
    return { weight, bias: this.#upload(this.values(`${name}.bias`, totalRows).subarray(start, start + rows)) };
  }

  optionalVector(name: string, length: number): BufferHandle | undefined {
    return this.has(name) ? this.vector(name, length) : undefined;
  }

  vector(name: string, length: number): BufferHandle {
    return this.#upload(this.values(name, length));
  }

  values(name: string, length: number): Float32Array {
    const tensor = this.#tensor(name, [length]);
    const bytes = new Uint8Array(tensor.byteLength);
    const file = openSync(this.gguf.shards[tensor.shard]!.path, "r");
    try {
      const numRead = readSync(file, bytes, 0, bytes.length, tensor.byteOffset);
      if (numRead !== bytes.length) {
        throw new MillraceError("gguf_truncated", `expected ${bytes.length} bytes of ${name}, got ${numRead}`);
      }
    } finally {
      closeSync(file);
    }
    return dequantizeRow(tensor.type, bytes, length);
  }

  #upload(values: Float32Array): BufferHandle {
    const buffer = this.device.allocate(values.byteLength);
    new Float32Array(this.device.view(buffer)).set(values);
    return buffer;
  }

  #tensor(name: string, shape: readonly number[]): GgufTensor {
    const tensor = this.gguf.tensors.get(name);
    if (tensor === undefined) {
      throw new MillraceError("gguf_tensor", `expected a tensor ${name} of shape [${shape}], got none`, {
        hint: "The file is incomplete, or its metadata describe another model.",
      });
    }
    const actual = [...tensor.shape];
    while (actual.length > shape.length && actual.at(-1) === 1) actual.pop();
    if (actual.length !== shape.length || actual.some((size, i) => size !== shape[i])) {
      throw new MillraceError("gguf_tensor", `expected ${name} of shape [${shape}], got [${tensor.shape}]`);
    }
    return tensor;
  }
}

/** The type most weight bytes have, and the totals, for people and for /v1/models. */
export function summarizeWeights(gguf: GgufFile): {
  readonly weightType: TensorType;
  readonly numParameters: number;
  readonly weightBytes: number;
  readonly bytesByType: ReadonlyMap<TensorType, number>;
} {
  const bytesByType = new Map<TensorType, number>();
  let numParameters = 0;
  let weightBytes = 0;
  for (const tensor of gguf.tensors.values()) {
    bytesByType.set(tensor.type, (bytesByType.get(tensor.type) ?? 0) + tensor.byteLength);
    numParameters += tensor.shape.reduce((product, size) => product * size, 1);
    weightBytes += tensor.byteLength;
  }
  const [weightType] = [...bytesByType].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["F32", 0]);
  return { weightType: weightType as TensorType, numParameters, weightBytes, bytesByType };
}
