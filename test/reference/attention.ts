/** Attention over paged KV as its definition reads: a softmax in double precision over the visible entries, one query head at a time. */
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
  const q = operands.f32("q", numRows * numHeads * headDim);
  const out = operands.f32("out", numRows * numHeads * headDim);
  const sinks = operands.optionalF32("sinks", numHeads);
  if (sinks !== undefined) operands.requireApart("out", "sinks");
  const keyCache = operands.kvCache("keyCache", shape);
  const valueCache = operands.kvCache("valueCache", shape);
  const numBlocks = Math.min(keyCache.numBlocks, valueCache.numBlocks);
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
        out.set(attendOneHead(query, keyCache, valueCache, slots, kvHead, scale, cap, sinks?.[head]), from);
      }
    }
  };
}

/** query: [headDim]; slots: where the visible entries lie, in order. No entries give zeros. sink: one more score, without a value. */
function attendOneHead(
  query: Float32Array,
  keyCache: KvCacheView,
  valueCache: KvCacheView,
  slots: readonly number[],
  kvHead: number,
  scale: number,
  cap: number,
  sink = Number.NEGATIVE_INFINITY,
): Float64Array {
  const scores = slots.map((slot) => capped(dot(query, loadEntry(keyCache, "key", slot, kvHead)) * scale, cap));
  const max = scores.reduce((a, b) => Math.max(a, b), sink);
  const weights = scores.map((score) => Math.exp(score - max));
  const total = weights.reduce((a, b) => a + b, sink === Number.NEGATIVE_INFINITY ? 0 : Math.exp(sink - max));
  const out = new Float64Array(query.length);
  slots.forEach((slot, j) => {
    const share = weights[j]! / total;
    loadEntry(valueCache, "value", slot, kvHead).forEach((value, d) => {
      out[d]! += share * value;
    });
  });
  return out;
}

function dot(a: Float32Array, b: Float64Array): number {
  let sum = 0;
  for (let d = 0; d < b.length; d++) sum += a[d]! * b[d]!;
  return sum;
}
