/**
 * Attention over paged KV as its definition reads: a softmax in double precision over the visible entries, one query
 * head at a time.
 */
import { type KvCacheView, loadEntry } from "./kv-entries.js";
import { type Operands, readKvShape } from "./operands.js";
import { capped, type Work } from "./ops.js";

export function pagedAttention(operands: Operands<"pagedAttention">): Work {
  const shape = readKvShape(operands);
  const { numHeads, numKvHeads, headDim, blockSize } = shape;
  const numRows = operands.integer("numRows");
  const tableStride = operands.integer("tableStride", 1);
  const scale = operands.number("scale");
  const window = operands.integer("window");
  const cap = operands.number("cap");
  if (cap < 0) operands.refuse("cap", "at least 0", cap);
  const latentDim = operands.integer("latentDim", 0, headDim);
  const valueDim = latentDim === 0 ? headDim : latentDim;
  const q = operands.f32("q", numRows * numHeads * headDim);
  const out = operands.f32("out", numRows * numHeads * valueDim);
  const sinks = operands.optionalF32("sinks", numHeads);
  if (sinks !== undefined) operands.requireApart("out", "sinks");
  const keyCache = operands.kvCache("keyCache", shape);
  const valueCache = operands.kvCache("valueCache", shape);
  const numBlocks = Math.min(keyCache.numBlocks, valueCache.numBlocks);
  const valueAt = (slot: number, kvHead: number): Float64Array =>
    latentDim === 0
      ? loadEntry(valueCache, "value", slot, kvHead)
      : loadEntry(keyCache, "key", slot, kvHead).subarray(headDim - latentDim);
  const kvLengths = operands.indices("kvLengths", numRows, 0, tableStride * blockSize);
  const blockTables = operands.allI32("blockTables");
  const sequenceIndex = operands.indices("sequenceIndex", numRows, 0, Math.floor(blockTables.length / tableStride) - 1);
  const begins = operands.optionalI32("begins", numRows);
  for (const inputs of [kvLengths, blockTables, sequenceIndex, begins]) {
    if (inputs?.buffer === out.buffer) {
      operands.refuse("out", "another buffer than kvLengths, sequenceIndex, blockTables and begins", "the same");
    }
  }
  begins?.forEach((begin, m) => {
    if (begin < 0 || begin > kvLengths[m]!) operands.refuse("begins", `in [0, ${kvLengths[m]}]`, begin);
  });

  const firstVisible = (m: number): number => begins?.[m] ?? (window === 0 ? 0 : Math.max(0, kvLengths[m]! - window));
  const blockOf = (m: number, entry: number): number =>
    blockTables[sequenceIndex[m]! * tableStride + Math.floor(entry / blockSize)]!;
  for (let m = 0; m < numRows; m++) {
    for (let entry = firstVisible(m); entry < kvLengths[m]!; entry++) {
      const block = blockOf(m, entry);
      if (block < 0 || block >= numBlocks) operands.refuse("blockTables", `blocks in [0, ${numBlocks})`, block);
    }
  }

  return () => {
    for (let m = 0; m < numRows; m++) {
      const slots: number[] = [];
      for (let entry = firstVisible(m); entry < kvLengths[m]!; entry++) {
        slots.push(blockOf(m, entry) * blockSize + (entry % blockSize));
      }
      for (let head = 0; head < numHeads; head++) {
        const kvHead = Math.floor(head / (numHeads / numKvHeads));
        const from = (m * numHeads + head) * headDim;
        const query = q.slice(from, from + headDim);
        const weights = weightsOfHead(query, keyCache, slots, kvHead, scale, cap, sinks?.[head]);
        const values = slots.map((slot) => valueAt(slot, kvHead));
        out.set(weightedSum(weights, values, valueDim), (m * numHeads + head) * valueDim);
      }
    }
  };
}

/** No entries give zeros. */
function weightedSum(weights: readonly number[], values: readonly Float64Array[], width: number): Float64Array {
  const out = new Float64Array(width);
  values.forEach((value, j) => {
    value.forEach((each, d) => {
      out[d]! += weights[j]! * each;
    });
  });
  return out;
}

/**
 * @param query [headDim]
 * @param slots where the visible entries lie, in order
 * @param sink one more score, without a value
 * @returns the weight of each entry; with a sink they sum to less than 1
 */
function weightsOfHead(
  query: Float32Array,
  keyCache: KvCacheView,
  slots: readonly number[],
  kvHead: number,
  scale: number,
  cap: number,
  sink = Number.NEGATIVE_INFINITY,
): number[] {
  const scores = slots.map((slot) => capped(dot(query, loadEntry(keyCache, "key", slot, kvHead)) * scale, cap));
  const max = scores.reduce((a, b) => Math.max(a, b), sink);
  const weights = scores.map((score) => Math.exp(score - max));
  const total = weights.reduce((a, b) => a + b, sink === Number.NEGATIVE_INFINITY ? 0 : Math.exp(sink - max));
  return weights.map((weight) => weight / total);
}

export function countAttention(operands: Operands<"countAttention">): Work {
  const shape = readKvShape(operands);
  const { numHeads, numKvHeads, headDim, blockSize } = shape;
  const tableStride = operands.integer("tableStride", 1);
  const countStride = operands.integer("countStride", 1);
  const scale = operands.number("scale");
  const cap = operands.number("cap");
  if (cap < 0) operands.refuse("cap", "at least 0", cap);
  const unit = operands.number("unit");
  if (!(unit >= 1 && unit <= 2 ** 30)) operands.refuse("unit", "in [1, 2^30]", unit);
  const sinks = operands.optionalF32("sinks", numHeads);
  const keyCache = operands.kvCache("keyCache", shape);
  const counts = operands.allI32("counts");
  const entropies = operands.allI32("entropies");
  const q = operands.allF32("q");
  const kvLengths = operands.allI32("kvLengths");
  const sequenceIndex = operands.allI32("sequenceIndex");
  const blockTables = operands.allI32("blockTables");
  const numQueries = Math.min(kvLengths.length, sequenceIndex.length, Math.floor(q.length / (numHeads * headDim)));
  const rows = operands.indices("rows", operands.integer("numRows"), 0, numQueries - 1);
  for (const written of ["counts", "entropies"]) {
    for (const read of ["rows", "q", "kvLengths", "sequenceIndex", "blockTables"]) operands.requireApart(written, read);
  }
  operands.requireApart("counts", "entropies");
  const numSequences = Math.floor(
    Math.min(blockTables.length / tableStride, counts.length / countStride, entropies.length),
  );
  const most = Math.min(countStride, tableStride * blockSize);
  const seen = [...rows].map((m) => {
    const [length, sequence] = [kvLengths[m]!, sequenceIndex[m]!];
    if (length < 0 || length > most) operands.refuse("kvLengths", `in [0, ${most}]`, length);
    if (sequence < 0 || sequence >= numSequences) operands.refuse("sequenceIndex", `in [0, ${numSequences})`, sequence);
    const slots = Array.from({ length }, (_, entry) => {
      const block = blockTables[sequence * tableStride + Math.floor(entry / blockSize)]!;
      if (block < 0 || block >= keyCache.numBlocks) {
        operands.refuse("blockTables", `blocks in [0, ${keyCache.numBlocks})`, block);
      }
      return block * blockSize + (entry % blockSize);
    });
    return { m, sequence, slots };
  });
  return () => {
    for (const { m, sequence, slots } of seen) {
      for (let head = 0; head < numHeads && slots.length > 0; head++) {
        const kvHead = Math.floor(head / (numHeads / numKvHeads));
        const query = q.slice((m * numHeads + head) * headDim, (m * numHeads + head + 1) * headDim);
        const weights = weightsOfHead(query, keyCache, slots, kvHead, scale, cap, sinks?.[head]);
        const total = weights.reduce((a, b) => a + b, 0);
        // Scores that are no numbers say nothing.
        if (Number.isNaN(total)) continue;
        weights.forEach((weight, j) => {
          counts[sequence * countStride + j]! += Math.round(unit * weight);
        });
        const entropy = weights.reduce((sum, weight) => sum - entropyOf(weight / total), 0);
        entropies[sequence]! += Math.round(256 * entropy);
      }
    }
  };
}

/** p ln p */
const entropyOf = (p: number): number => (p === 0 ? 0 : p * Math.log(p));

function dot(a: Float32Array, b: Float64Array): number {
  let sum = 0;
  for (let d = 0; d < b.length; d++) sum += a[d]! * b[d]!;
  return sum;
}
