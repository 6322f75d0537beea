/**
 * Records a step's operations as numbers in one Float64Array, so that a whole forward pass crosses into native code once.
 *
 * Encoding of one operation: [opcode, flags, numArgs, ...args]. Flag bit 0 (`CONCURRENT`): the next operation does not depend on
 * this one, so no barrier follows it. Every matrix is row-major f32 unless stated; M is the number of token rows in the step.
 */
import type { BufferHandle, WeightHandle } from "./kernels.js";
import { ACTIVATION_FORMATS, type ActivationFormat } from "./packing.js";

/** Order is the opcode (from 0) and must equal native/kernels/ops.h. */
export const OP_NAMES = [
  "embed",
  "rmsNorm",
  "quantize",
  "linear",
  "add",
  "gatedLinear",
  "ropeTable",
  "ropeAndWriteKv",
  "pagedAttention",
  "gatherRows",
  "sample",
  "pack",
] as const;
export type OpName = (typeof OP_NAMES)[number];
const OPCODE = Object.fromEntries(OP_NAMES.map((name, index) => [name, index])) as Readonly<Record<OpName, number>>;

export const CONCURRENT = 1;

/** Attention splits the KV range every this many positions, always (exactness rule E3). */
export const ATTENTION_PART = 256;

/** A KV block's entries are stored eight by eight; every block size is a multiple of it. */
export const KV_OCTET = 8;

/** int8: one f32 scale per token and head. */
export type KvType = "f16" | "f32" | "int8";
const KV_TYPE_CODE: Readonly<Record<KvType, number>> = { f16: 0, f32: 1, int8: 2 };
export const KV_TYPES = Object.keys(KV_TYPE_CODE) as readonly KvType[];
export const KV_VALUE_BYTES: Readonly<Record<KvType, number>> = { f16: 2, f32: 4, int8: 1 };

/** Stored bytes of one token's key (or value) of one head. */
export function kvEntryBytes(kvType: KvType, headDim: number): number {
  return headDim * KV_VALUE_BYTES[kvType] + (kvType === "int8" ? 4 : 0);
}

export type Activation = "silu" | "geluTanh";
const ACTIVATION_CODE: Readonly<Record<Activation, number>> = { silu: 0, geluTanh: 1 };

/** As `Program.linear` takes them. */
export interface LinearOperands {
  readonly x: BufferHandle;
  readonly weight: WeightHandle;
  readonly bias: BufferHandle;
}

export interface KvShape {
  readonly kvType: KvType;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly blockSize: number;
}

/** Where the sampler finds its inputs and leaves its results; R rows, V vocabulary entries. */
export interface SampleBuffers {
  /** f64 [R, SAMPLE_PARAMS] */
  readonly params: BufferHandle;
  /** i32: token histories, prompt then output, at each row's historyStart */
  readonly history: BufferHandle;
  /** i32 and f32, parallel: additive logit biases at each row's biasStart */
  readonly biasIds: BufferHandle;
  readonly biasValues: BufferHandle;
  /** i32: ids whose logit becomes −inf, at each row's banStart */
  readonly bannedIds: BufferHandle;
  /** i32: at each row's maskStart, ceil(V / 32) words whose bits say which ids may come (bit i of word w: id 32w + i) */
  readonly masks: BufferHandle;
  /** i32 [R] chosen ids, −1 where all logits are NaN or −∞ (the row has then no log-probability or rank); f32 [R] their log-probabilities; i32 [R] their ranks (1 = most likely) */
  readonly outIds: BufferHandle;
  readonly outLogprobs: BufferHandle;
  readonly outRanks: BufferHandle;
  /** i32 and f32 [R, topStride]: the most likely tokens, logit descending then id ascending */
  readonly topIds: BufferHandle;
  readonly topLogprobs: BufferHandle;
  readonly topStride: number;
}

/** Columns of a row of sampler parameters (f64). */
export const SAMPLE_PARAM = {
  /** 0: sample; 1: score `target` only (prompt log-probabilities) */
  mode: 0,
  target: 1,
  /** 0 = greedy */
  temperature: 2,
  /** 0 = off */
  topK: 3,
  /** 1 = off */
  topP: 4,
  /** 0 = off */
  minP: 5,
  presencePenalty: 6,
  frequencyPenalty: 7,
  /** 1 = off */
  repetitionPenalty: 8,
  /** seed as two unsigned 32-bit halves */
  seedHigh: 9,
  seedLow: 10,
  /** index in the sequence of the token being chosen: the noise counter */
  position: 11,
  /** how many top tokens to report; 0: only the chosen token's log-probability; −1: no log-probabilities at all */
  numTop: 12,
  historyStart: 13,
  numPromptTokens: 14,
  numOutputTokens: 15,
  biasStart: 16,
  numBiases: 17,
  banStart: 18,
  numBanned: 19,
  /** −1: no mask */
  maskStart: 20,
} as const;
/** f64 values per row. */
export const SAMPLE_PARAMS = 24;

export class Program {
  #words = new Float64Array(4096);
  #numWords = 0;

  get words(): Float64Array {
    return this.#words;
  }

  get numWords(): number {
    return this.#numWords;
  }

  clear(): void {
    this.#numWords = 0;
  }

  /** out[M, cols] = scale · weight[ids[m]] (dequantised rows). ids: i32 [M], each in [0, weight rows). */
  embed(out: BufferHandle, weight: WeightHandle, ids: BufferHandle, numRows: number, scale: number): void {
    this.#op("embed", 0, 5);
    this.#push(out, weight, ids, numRows, scale);
  }

  /** out[r] = x[r] / sqrt(mean(x[r]²) + eps) · gain, for rows of `width`; out may be x. gain: f32 [width]. */
  rmsNorm(out: BufferHandle, x: BufferHandle, gain: BufferHandle, numRows: number, width: number, eps: number): void {
    this.#op("rmsNorm", 0, 6);
    this.#push(out, x, gain, numRows, width, eps);
  }

  /**
   * Rounds rows of x [M, width] to integers with a scale per block or row: d = max|x| / largest, q = x · (largest / max|x|) to nearest even,
   * largest = 127 or 32767. out: M rows of activationRowBytes(format, width). A block or row with a NaN or an infinity has d = NaN.
   */
  quantize(
    out: BufferHandle,
    x: BufferHandle,
    numRows: number,
    width: number,
    format: Exclude<ActivationFormat, "f32">,
    options: { readonly concurrent?: boolean } = {},
  ): void {
    this.#op("quantize", options.concurrent === true ? CONCURRENT : 0, 5);
    this.#push(out, x, numRows, width, ACTIVATION_FORMATS.indexOf(format));
  }

  /**
   * out[M, N] = x[M, K] · weightᵀ (+ bias) (+ out, when `accumulate`); weight is [N, K]; bias: f32 [N] or NO_BUFFER. With a packed weight,
   * x are rows that `quantize` wrote in the format the weight's type needs.
   * One output's K-sum is the same sequence of operations whatever M and the thread count are (E1).
   */
  linear(
    out: BufferHandle,
    x: BufferHandle,
    weight: WeightHandle,
    bias: BufferHandle,
    numRows: number,
    options: { readonly accumulate?: boolean; readonly concurrent?: boolean } = {},
  ): void {
    this.#op("linear", options.concurrent === true ? CONCURRENT : 0, 6);
    this.#push(out, x, weight, bias, numRows, options.accumulate === true ? 1 : 0);
  }

  /** out[i] += x[i] for numRows · width values. */
  add(out: BufferHandle, x: BufferHandle, numRows: number, width: number): void {
    this.#op("add", 0, 4);
    this.#push(out, x, numRows, width);
  }

  /**
   * out[M, N] = activation(gate) · up, where gate and up are linear layers [N, K] as above, each with its own x and bias. `room`: f32 [M, N]
   * that the operation may use.
   */
  gatedLinear(
    out: BufferHandle,
    room: BufferHandle,
    gate: LinearOperands,
    up: LinearOperands,
    numRows: number,
    kind: Activation,
  ): void {
    this.#op("gatedLinear", 0, 10);
    this.#push(out, room, gate.x, gate.weight, gate.bias);
    this.#push(up.x, up.weight, up.bias, numRows, ACTIVATION_CODE[kind]);
  }

  /** out[M, half, 2] = (cos, sin)(positions[m] · invFreq[i]) · magnitude; positions: i32 [M]; invFreq: f32 [half]. */
  ropeTable(
    out: BufferHandle,
    positions: BufferHandle,
    invFreq: BufferHandle,
    numRows: number,
    half: number,
    magnitude: number,
    options: { readonly concurrent?: boolean } = {},
  ): void {
    this.#op("ropeTable", options.concurrent === true ? CONCURRENT : 0, 6);
    this.#push(out, positions, invFreq, numRows, half, magnitude);
  }

  /**
   * Rotates q [M, Hq, D] in place and k [M, Hkv, D] by the rope table (the first 2·half values of each head; pairs (2i, 2i+1), or
   * (i, i+half) when `isNeox`), then stores k and v [M, Hkv, D] at slots[m] of the caches, converted to the KV type.
   * Caches: [numBlocks, Hkv, blockSize / 8, octet], an octet of keys [D, 8], of values [8, D]; slot = block · blockSize + offset;
   * slots: i32 [M], −1 stores nothing. An int8 octet ends with eight f32 scales: the entry's largest magnitude / 127.
   */
  ropeAndWriteKv(
    q: BufferHandle,
    k: BufferHandle,
    v: BufferHandle,
    table: BufferHandle,
    keyCache: BufferHandle,
    valueCache: BufferHandle,
    slots: BufferHandle,
    numRows: number,
    shape: KvShape,
    half: number,
    isNeox: boolean,
  ): void {
    this.#op("ropeAndWriteKv", 0, 15);
    this.#push(q, k, v, table, keyCache, valueCache, slots, numRows);
    this.#push(shape.numHeads, shape.numKvHeads, shape.headDim, shape.blockSize, KV_TYPE_CODE[shape.kvType]);
    this.#push(half, isNeox ? 1 : 0);
  }

  /**
   * out[M, Hq, D] = softmax(scale · q kᵀ) v over the stored entries [max(0, kvLengths[m] − window), kvLengths[m]) of row m's sequence;
   * window 0 = all. Entry j of sequence s lies in block blockTables[s, j div blockSize]. kvLengths, sequenceIndex: i32 [M];
   * blockTables: i32 [*, tableStride]. Query head h reads KV head h div (Hq / Hkv). Parts of ATTENTION_PART entries each keep their own
   * (max, sum, accumulator) and are merged in order (E3). Blocks that several rows' sequences begin with are read once for all of them.
   */
  pagedAttention(
    out: BufferHandle,
    q: BufferHandle,
    keyCache: BufferHandle,
    valueCache: BufferHandle,
    kvLengths: BufferHandle,
    sequenceIndex: BufferHandle,
    blockTables: BufferHandle,
    tableStride: number,
    numRows: number,
    shape: KvShape,
    scale: number,
    window: number,
  ): void {
    this.#op("pagedAttention", 0, 16);
    this.#push(out, q, keyCache, valueCache, kvLengths, sequenceIndex, blockTables, tableStride, numRows);
    this.#push(shape.numHeads, shape.numKvHeads, shape.headDim, shape.blockSize, KV_TYPE_CODE[shape.kvType]);
    this.#push(scale, window);
  }

  /** out[r] = x[rows[r]]; rows: i32 [R]; width values a row. */
  gatherRows(out: BufferHandle, x: BufferHandle, rows: BufferHandle, numRows: number, width: number): void {
    this.#op("gatherRows", 0, 5);
    this.#push(out, x, rows, numRows, width);
  }

  /**
   * Chooses (or scores) one token per row of logits [R, V]; logits stay unchanged. Order of work: log-probabilities and ranks from the raw
   * logits; mask; biases; bans; repetition, then frequency and presence penalties; temperature; min-p, top-k, top-p; Gumbel noise; arg-max.
   * Ties everywhere: logit descending, id ascending. Noise: a function of (seed, position, id) only (E5).
   */
  sample(logits: BufferHandle, numRows: number, vocabSize: number, buffers: SampleBuffers): void {
    this.#op("sample", 0, 15);
    this.#push(logits, numRows, vocabSize, buffers.params, buffers.history, buffers.biasIds, buffers.biasValues);
    this.#push(buffers.bannedIds, buffers.masks, buffers.outIds, buffers.outLogprobs, buffers.outRanks);
    this.#push(buffers.topIds, buffers.topLogprobs, buffers.topStride);
  }

  /** Writes `weight`, which lies in rows, to `out` from `byteOffset` on in its packed layout: packedByteLength bytes. */
  pack(out: BufferHandle, byteOffset: number, weight: WeightHandle): void {
    this.#op("pack", 0, 3);
    this.#push(out, byteOffset, weight);
  }

  #op(name: OpName, flags: number, numArgs: number): void {
    const needed = this.#numWords + 3 + numArgs;
    if (needed > this.#words.length) {
      const grown = new Float64Array(this.#words.length * 2);
      grown.set(this.#words);
      this.#words = grown;
    }
    this.#push(OPCODE[name], flags, numArgs);
  }

  #push(...values: number[]): void {
    for (const value of values) this.#words[this.#numWords++] = value;
  }
}
