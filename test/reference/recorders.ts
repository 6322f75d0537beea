/** Records the two operations with many inputs, attention and sampling, from a readable description of their rows. */
import { type BufferHandle, NO_BUFFER } from "../../src/backend/handles.js";
import { SAMPLE_PARAM, SAMPLE_PARAMS } from "../../src/backend/ops.js";
import { type KvShape, kvEntryBytes } from "../../src/backend/program.js";
import { type Bench, joined, shuffled } from "./compare.js";
import { storeEntry } from "./kv-entries.js";

/** One sequence's stored entries, in order. */
export interface KvSequence {
  /** [numEntries, Hkv, D] */
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

export interface AttentionRow {
  readonly sequence: number;
  readonly kvLength: number;
  /** First entry that the row sees; of all rows or of none. */
  readonly begin?: number;
  /** [Hq, D] */
  readonly q: Float32Array;
}

/** Sequences laid out in the caches of one bench. */
interface StoredKv {
  readonly shape: KvShape;
  readonly keyCache: BufferHandle;
  readonly valueCache: BufferHandle;
  readonly blockTables: BufferHandle;
  readonly tableStride: number;
}

/**
 * Lays the sequences into seeded-shuffled blocks of caches filled with NaN, so that reading an entry out of range
 * shows.
 */
export function storeSequences(
  bench: Bench,
  shape: KvShape,
  sequences: readonly KvSequence[],
  layoutSeed: number,
): StoredKv {
  const entryWidth = shape.numKvHeads * shape.headDim;
  const numEntries = sequences.map((sequence) => sequence.keys.length / entryWidth);
  const tableStride = Math.max(1, ...numEntries.map((count) => Math.ceil(count / shape.blockSize)));
  const order = shuffled(tableStride * sequences.length + 1, layoutSeed);
  const blockTables = order.slice(0, tableStride * sequences.length);
  const encode = (side: "key" | "value", pick: (sequence: KvSequence) => Float32Array): Uint8Array => {
    const numBytes = order.length * shape.blockSize * shape.numKvHeads * kvEntryBytes(shape.kvType, shape.headDim);
    const cache = new Uint8Array(numBytes).fill(0xff);
    const view = { bytes: new DataView(cache.buffer), shape, numBlocks: order.length };
    sequences.forEach((sequence, s) => {
      const values = pick(sequence);
      // `i` counts the (entry, head) vectors of headDim values.
      for (let i = 0; i * shape.headDim < values.length; i++) {
        const entry = Math.floor(i / shape.numKvHeads);
        const block = blockTables[s * tableStride + Math.floor(entry / shape.blockSize)]!;
        const slot = block * shape.blockSize + (entry % shape.blockSize);
        const vector = values.subarray(i * shape.headDim, (i + 1) * shape.headDim);
        storeEntry(view, side, slot, i % shape.numKvHeads, vector);
      }
    });
    return cache;
  };
  const { keys, values } = encodedOnce(sequences, `${JSON.stringify(shape)} ${layoutSeed}`, () => ({
    keys: encode("key", (sequence) => sequence.keys),
    values: encode("value", (sequence) => sequence.values),
  }));
  return {
    shape,
    tableStride,
    blockTables: bench.i32(blockTables),
    keyCache: bench.bytes(keys),
    valueCache: bench.bytes(values),
  };
}

interface EncodedKv {
  readonly keys: Uint8Array;
  readonly values: Uint8Array;
}

const encodedKv = new WeakMap<readonly KvSequence[], Map<string, EncodedKv>>();

/**
 * Encoding takes most of an attention test, and is the same for every instruction set that is handed the same
 * sequences.
 */
function encodedOnce(sequences: readonly KvSequence[], layout: string, encode: () => EncodedKv): EncodedKv {
  const byLayout = encodedKv.get(sequences) ?? new Map<string, EncodedKv>();
  const encoded = byLayout.get(layout) ?? encode();
  encodedKv.set(sequences, byLayout.set(layout, encoded));
  return encoded;
}

interface AttentionSettings {
  readonly scale: number;
  readonly window: number;
  readonly cap?: number | undefined;
  /** [Hq] */
  readonly sinks?: Float32Array | undefined;
  /** Values are the last numbers of keys. */
  readonly latentDim?: number | undefined;
}

/** Returns `out` [M, Hq, D], or [M, Hq, latentDim]. */
export function recordAttention(
  bench: Bench,
  stored: StoredKv,
  rows: readonly AttentionRow[],
  { scale, window, cap, sinks, latentDim = 0 }: AttentionSettings,
): BufferHandle {
  const { shape, keyCache, valueCache, blockTables, tableStride } = stored;
  const out = bench.unwritten(rows.length * shape.numHeads * (latentDim || shape.headDim));
  bench.program.record("pagedAttention", {
    ...shape,
    latentDim,
    out,
    q: bench.f32(joined(rows.map((row) => row.q))),
    keyCache,
    valueCache: latentDim > 0 ? keyCache : valueCache,
    kvLengths: bench.i32(rows.map((row) => row.kvLength)),
    sequenceIndex: bench.i32(rows.map((row) => row.sequence)),
    blockTables,
    tableStride,
    numRows: rows.length,
    scale,
    window,
    cap,
    sinks: sinks === undefined ? undefined : bench.f32(sinks),
    begins: rows[0]?.begin === undefined ? NO_BUFFER : bench.i32(rows.map((row) => row.begin!)),
  });
  return out;
}

/**
 * Counts the attention of `counted` rows, beside counts that are not 0.
 * @returns `counts` [sequences, countStride] and `entropies` [sequences]
 */
export function recordCounts(
  bench: Bench,
  stored: StoredKv,
  rows: readonly AttentionRow[],
  counted: readonly number[],
  { scale, cap, sinks, unit }: Omit<AttentionSettings, "window"> & { readonly unit: number },
): { readonly counts: BufferHandle; readonly entropies: BufferHandle } {
  const { shape, keyCache, blockTables, tableStride } = stored;
  const numSequences = 1 + Math.max(...rows.map(({ sequence }) => sequence));
  const countStride = tableStride * shape.blockSize;
  const counts = bench.i32(Array.from({ length: numSequences * countStride }, (_, i) => i % 3));
  const entropies = bench.i32(Array.from({ length: numSequences }, (_, i) => i));
  bench.program.record("countAttention", {
    ...shape,
    counts,
    entropies,
    q: bench.f32(joined(rows.map((row) => row.q))),
    keyCache,
    rows: bench.i32(counted),
    kvLengths: bench.i32(rows.map((row) => row.kvLength)),
    sequenceIndex: bench.i32(rows.map((row) => row.sequence)),
    blockTables,
    tableStride,
    countStride,
    numRows: counted.length,
    scale,
    cap,
    sinks: sinks === undefined ? undefined : bench.f32(sinks),
    unit,
  });
  return { counts, entropies };
}

/** A row to sample; everything left out is off. */
export interface SampleRowInput {
  readonly logits: ArrayLike<number>;
  readonly mode?: number;
  readonly target?: number;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly repetitionPenalty?: number;
  readonly topNSigma?: number;
  readonly typicalP?: number;
  readonly xtcProbability?: number;
  readonly xtcThreshold?: number;
  readonly dynatempRange?: number;
  readonly dynatempExponent?: number;
  readonly seed?: number;
  readonly position?: number;
  readonly numTop?: number;
  readonly prompt?: readonly number[];
  readonly output?: readonly number[];
  readonly biases?: readonly (readonly [id: number, value: number])[];
  /** Added after the penalties. */
  readonly lateBiases?: readonly (readonly [id: number, value: number])[];
  readonly banned?: readonly number[];
  /** The only ids that may come. */
  readonly allowed?: readonly number[] | undefined;
}

interface SampleOutputs {
  readonly ids: BufferHandle;
  readonly logprobs: BufferHandle;
  readonly ranks: BufferHandle;
  readonly topIds: BufferHandle;
  readonly topLogprobs: BufferHandle;
}

/** One bit an id. */
function maskOf(allowed: readonly number[], vocabSize: number): Int32Array {
  const words = new Int32Array(Math.ceil(vocabSize / 32));
  for (const id of allowed) words[id >> 5]! |= 1 << (id & 31);
  return words;
}

export function recordSample(bench: Bench, rows: readonly SampleRowInput[], topStride = 4): SampleOutputs {
  const history: number[] = [];
  const biases: (readonly [number, number])[] = [];
  const banned: number[] = [];
  const masks: number[] = [];
  const params = new Float64Array(rows.length * SAMPLE_PARAMS);
  rows.forEach((row, r) => {
    const values: Record<keyof typeof SAMPLE_PARAM, number> = {
      mode: row.mode ?? 0,
      target: row.target ?? 0,
      temperature: row.temperature ?? 0,
      topK: row.topK ?? 0,
      topP: row.topP ?? 1,
      minP: row.minP ?? 0,
      presencePenalty: row.presencePenalty ?? 0,
      frequencyPenalty: row.frequencyPenalty ?? 0,
      repetitionPenalty: row.repetitionPenalty ?? 1,
      seedHigh: Math.floor((row.seed ?? 0) / 2 ** 32),
      seedLow: (row.seed ?? 0) % 2 ** 32,
      position: row.position ?? 0,
      numTop: row.numTop ?? topStride,
      historyStart: history.length,
      numPromptTokens: row.prompt?.length ?? 0,
      numOutputTokens: row.output?.length ?? 0,
      biasStart: biases.length,
      numBiases: row.biases?.length ?? 0,
      banStart: banned.length,
      numBanned: row.banned?.length ?? 0,
      maskStart: row.allowed === undefined ? -1 : masks.length,
      topNSigma: row.topNSigma ?? 0,
      typicalP: row.typicalP ?? 1,
      xtcProbability: row.xtcProbability ?? 0,
      xtcThreshold: row.xtcThreshold ?? 0,
      dynatempRange: row.dynatempRange ?? 0,
      dynatempExponent: row.dynatempExponent ?? 1,
      lateBiasStart: biases.length + (row.biases?.length ?? 0),
      numLateBiases: row.lateBiases?.length ?? 0,
    };
    for (const [name, value] of Object.entries(values)) {
      params[r * SAMPLE_PARAMS + SAMPLE_PARAM[name as keyof typeof SAMPLE_PARAM]] = value;
    }
    history.push(...(row.prompt ?? []), ...(row.output ?? []));
    biases.push(...(row.biases ?? []), ...(row.lateBiases ?? []));
    banned.push(...(row.banned ?? []));
    if (row.allowed !== undefined) masks.push(...maskOf(row.allowed, row.logits.length));
  });
  const outputs = {
    ids: bench.i32(rows.map(() => -1)),
    logprobs: bench.unwritten(rows.length),
    ranks: bench.i32(rows.map(() => -1)),
    topIds: bench.i32(new Int32Array(rows.length * topStride).fill(-1)),
    topLogprobs: bench.unwritten(rows.length * topStride),
  };
  bench.program.record("sample", {
    logits: bench.f32(joined(rows.map((row) => Float32Array.from(row.logits)))),
    numRows: rows.length,
    vocabSize: rows[0]!.logits.length,
    params: bench.f64(params),
    history: bench.i32(history),
    biasIds: bench.i32(biases.map(([id]) => id)),
    biasValues: bench.f32(biases.map(([, value]) => value)),
    bannedIds: bench.i32(banned),
    masks: bench.i32(masks),
    outIds: outputs.ids,
    outLogprobs: outputs.logprobs,
    outRanks: outputs.ranks,
    topIds: outputs.topIds,
    topLogprobs: outputs.topLogprobs,
    topStride,
  });
  return outputs;
}
