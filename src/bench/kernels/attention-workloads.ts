/** `pagedAttention` during decode and prefill, and the operation that writes the KV memory. */
import type { BufferHandle } from "../../backend/handles.js";
import type { KvType } from "../../backend/ops.js";
import { type KvShape, kvEntryBytes } from "../../backend/program.js";
import type { KernelWorkload, Recording } from "./workload.js";

/** Attention shapes of the benchmarks' 1.1B models. */
const HEADS = { numHeads: 32, numKvHeads: 4, headDim: 64, blockSize: 16 } as const;
const SCALE = 0.125;
/** Total KV entries that a decode program reads: far more than any cache holds. */
const KV_BYTES = 128 * 2 ** 20;

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const entryBytes = ({ numKvHeads, headDim, kvType }: KvShape): number => 2 * numKvHeads * kvEntryBytes(kvType, headDim);

interface Batch {
  readonly shape: KvShape;
  /** KV entries that each row attends to, and the row's sequence. */
  readonly kvLengths: readonly number[];
  readonly sequences: readonly number[];
  readonly context: number;
  /** All sequences use the blocks of the first one. */
  readonly isShared: boolean;
}

/** Records the batch over `numCopies` sets of sequences. */
function recordAttention(recording: Recording, batch: Batch, numCopies: number): void {
  const { shape, kvLengths, sequences, context, isShared } = batch;
  const numSequences = 1 + Math.max(...sequences);
  const stride = Math.ceil(context / shape.blockSize);
  const numTables = isShared ? 1 : numSequences;
  const cacheBytes = (numCopies * numTables * stride * shape.blockSize * entryBytes(shape)) / 2;
  const [keys, values] = [recording.filled(cacheBytes), recording.filled(cacheBytes)];
  const width = 4 * kvLengths.length * shape.numHeads * shape.headDim;
  const [q, out] = [recording.filled(width), recording.filled(width)];
  const [lengths, index] = [recording.i32(kvLengths), recording.i32(sequences)];
  for (let copy = 0; copy < numCopies; copy++) {
    const table = range(numTables * stride).map((i) => copy * numTables * stride + i);
    const tables: BufferHandle = recording.i32(isShared ? sequences.flatMap(() => table) : table);
    const numRows = kvLengths.length;
    recording.program.record("pagedAttention", {
      ...shape,
      out,
      q,
      keyCache: keys,
      valueCache: values,
      kvLengths: lengths,
      sequenceIndex: index,
      blockTables: tables,
      tableStride: stride,
      numRows,
      scale: SCALE,
      window: 0,
    });
  }
}

/** @param isShared all sequences attend to the same entries, as after a long common prompt */
export function decodeAttention(
  kvType: KvType,
  numSequences: number,
  context: number,
  isShared = false,
): KernelWorkload {
  const shape = { ...HEADS, kvType };
  const bytes = (isShared ? 1 : numSequences) * context * entryBytes(shape);
  const sequences = range(numSequences);
  const batch = { shape, context, sequences, kvLengths: sequences.map(() => context), isShared };
  return {
    op: `attention ${kvType}`,
    shape: `decode, ${numSequences} × ${context} ${isShared ? "shared " : ""}entries`,
    macs: 2 * numSequences * context * shape.numHeads * shape.headDim,
    mix: "float",
    bytes,
    record: (recording) => {
      const numCopies = Math.max(2, Math.ceil(KV_BYTES / bytes));
      recordAttention(recording, batch, numCopies);
      return numCopies;
    },
  };
}

export function prefillAttention(kvType: KvType, numTokens: number): KernelWorkload {
  const shape = { ...HEADS, kvType };
  const kvLengths = range(numTokens).map((i) => i + 1);
  const numPairs = kvLengths.reduce((sum, length) => sum + length, 0);
  return {
    op: `attention ${kvType}`,
    shape: `prefill, ${numTokens} tokens`,
    macs: 2 * numPairs * shape.numHeads * shape.headDim,
    mix: "float",
    bytes: 0,
    record: (recording) => {
      const sequences = kvLengths.map(() => 0);
      recordAttention(recording, { shape, context: numTokens, kvLengths, sequences, isShared: false }, 1);
      return 1;
    },
  };
}

export function writeKv(kvType: KvType, numTokens: number): KernelWorkload {
  const shape = { ...HEADS, kvType };
  const { numHeads, numKvHeads, headDim } = shape;
  const half = headDim / 2;
  return {
    op: `ropeAndWriteKv ${kvType}`,
    shape: `${numTokens} tokens`,
    macs: 0,
    mix: "float",
    bytes: 0,
    record: (recording) => {
      const cacheBytes = (numTokens * entryBytes(shape)) / 2;
      const [keys, values] = [recording.filled(cacheBytes), recording.filled(cacheBytes)];
      const q = recording.filled(4 * numTokens * numHeads * headDim);
      const [k, v] = [
        recording.filled(4 * numTokens * numKvHeads * headDim),
        recording.filled(4 * numTokens * numKvHeads * headDim),
      ];
      const table = recording.filled(4 * numTokens * 2 * half);
      const slots = recording.i32(range(numTokens));
      recording.program.record("ropeAndWriteKv", {
        ...shape,
        q,
        k,
        v,
        table,
        keyCache: keys,
        valueCache: values,
        slots,
        numRows: numTokens,
        half,
        isNeox: false,
      });
      return 1;
    },
  };
}
