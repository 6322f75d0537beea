/**
 * `pagedAttention` equals the reference within rounding, with the same bits for any block size, layout, batch and
 * threads (E1, E3, E4).
 */
import { describe, expect, it } from "vitest";
import { isLongRun, someOf } from "../../../../test/helpers/long.js";
import {
  Bench,
  expectClose,
  expectSameBits,
  extremes,
  ISAS,
  joined,
  normals,
  once,
  shuffled,
  type Tolerance,
  withBench,
} from "../../../../test/reference/compare.js";
import {
  type AttentionRow,
  type KvSequence,
  recordAttention,
  storeSequences,
} from "../../../../test/reference/recorders.js";
import { KV_TYPES, type KvType } from "../../ops.js";
import type { KvShape } from "../../program.js";

interface AttentionInput {
  readonly shape: KvShape;
  readonly sequences: readonly KvSequence[];
  readonly rows: readonly AttentionRow[];
  readonly scale: number;
  readonly windows: readonly number[];
  /** [Hq]; of every other window. */
  readonly sinks?: Float32Array;
}

/** The outputs of all windows, concatenated. */
function runAttention(bench: Bench, input: AttentionInput): Float32Array {
  return withBench(bench, () => {
    const stored = storeSequences(bench, input.shape, input.sequences, 1);
    const outs = input.windows.map((window, i) =>
      recordAttention(bench, stored, input.rows, { ...input, window, sinks: i % 2 === 0 ? input.sinks : undefined }),
    );
    bench.run();
    return joined(outs.map((out) => bench.readF32(out)));
  });
}

type HeadShape = Pick<KvShape, "numHeads" | "numKvHeads" | "headDim">;

function randomSequence(shape: HeadShape, numEntries: number, seed: number): KvSequence {
  const numValues = numEntries * shape.numKvHeads * shape.headDim;
  return { keys: normals(numValues, seed), values: normals(numValues, seed + 1) };
}

/** For each sequence, rows that see 1, half, all but one, and all of its entries. */
function randomRows(shape: HeadShape, lengths: readonly number[], seed: number): AttentionRow[] {
  return lengths.flatMap((length, sequence) =>
    [1, Math.ceil(length / 2), length - 1, length]
      .filter((kvLength) => kvLength > 0)
      .map((kvLength, i) => ({
        sequence,
        kvLength,
        q: normals(shape.numHeads * shape.headDim, seed + 10 * sequence + i),
      })),
  );
}

const HEAD_SHAPES: readonly HeadShape[] = [
  { numHeads: 1, numKvHeads: 1, headDim: 1 },
  { numHeads: 3, numKvHeads: 1, headDim: 7 },
  { numHeads: 8, numKvHeads: 2, headDim: 24 },
  { numHeads: 2, numKvHeads: 2, headDim: 64 },
  { numHeads: 7, numKvHeads: 1, headDim: 128 },
  { numHeads: 2, numKvHeads: 1, headDim: 256 },
  { numHeads: 4, numKvHeads: 1, headDim: 80 },
];

/** Lengths around one and two parts of ATTENTION_PART = 256 entries. */
const LENGTHS = [1, 2, 31, 255, 257, 530];

interface AttentionCase {
  readonly label: string;
  readonly input: AttentionInput;
  readonly tolerance: Tolerance;
  /** Computed once for every instruction set. */
  readonly wanted: () => Float32Array;
}

const CASES: readonly AttentionCase[] = KV_TYPES.flatMap((kvType) => [
  ...someOf(HEAD_SHAPES, 4).map((heads) => {
    const lengths = heads.headDim > (isLongRun ? 64 : 16) ? [2, 31, 260] : LENGTHS;
    const input: AttentionInput = {
      shape: { ...heads, kvType, blockSize: 16 },
      sequences: lengths.map((length, s) => randomSequence(heads, length, 100 * s)),
      rows: randomRows(heads, lengths, 7),
      scale: 1 / Math.sqrt(heads.headDim),
      windows: [0, 1, 20, 256],
      sinks: normals(heads.numHeads, 11).map((value) => 4 * value),
    };
    const label = `${kvType}, ${heads.numHeads}/${heads.numKvHeads} heads of ${heads.headDim}`;
    // Values are normally distributed and weights sum to 1, so outputs are about 1. Scores are off by a few roundings.
    return { label, input, tolerance: { relative: 1e-5, absolute: 5e-6 } };
  }),
  hugeCase(kvType),
]).map((one) => ({ ...one, wanted: once(() => runAttention(Bench.reference(), one.input)) }));

function hugeCase(kvType: KvType): Omit<AttentionCase, "wanted"> {
  const heads = { numHeads: 2, numKvHeads: 1, headDim: 16 };
  const length = 300;
  // Integers make scores exact, so that the softmax is equally sharp on every device.
  const whole = (values: Float32Array): Float32Array => values.map((value) => Math.round(value * 50));
  const { keys, values } = randomSequence(heads, length, 1);
  const largest = kvType === "f16" ? 60000 : 1e30;
  // Integer keys whose largest magnitude is 127 have an int8 scale of exactly 1.
  const stored = whole(keys).map((key, i) => (i % heads.headDim === 0 ? 127 : Math.max(-127, Math.min(127, key))));
  const input: AttentionInput = {
    shape: { ...heads, kvType, blockSize: 8 },
    sequences: [{ keys: stored, values: extremes(values.length, 2, largest) }],
    rows: randomRows(heads, [length], 3).map((row) => ({ ...row, q: whole(row.q) })),
    scale: 1,
    windows: [0],
  };
  const tolerance = { relative: 1e-5, absolute: largest * 1e-6 };
  return { label: `${kvType} with huge scores and values`, input, tolerance };
}

/** Sequences of the tests of batches, the same ones for every instruction set. */
const BATCH = (() => {
  const heads = { numHeads: 4, numKvHeads: 2, headDim: 40 };
  const lengths = [3, 100, 256, 600];
  return { heads, lengths, sequences: lengths.map((length, s) => randomSequence(heads, length, 50 * s)) };
})();

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(`pagedAttention, ${isa}`, () => {
    for (const { label, input, tolerance, wanted } of CASES) {
      it(`equals the reference for ${label}`, () => {
        expectClose(runAttention(Bench.native(isa, 2), input), wanted(), tolerance);
      });
    }

    for (const kvType of KV_TYPES) {
      it(`gives ${kvType} rows the same bits in any batch, block size and number of threads`, () => {
        const { heads, lengths, sequences } = BATCH;
        // Also a prefill chunk: consecutive rows of one sequence that cross a part boundary.
        const chunk = Array.from({ length: 40 }, (_, i) => ({
          sequence: 3,
          kvLength: 240 + i,
          q: normals(heads.numHeads * heads.headDim, 500 + i),
        }));
        const rows = [...randomRows(heads, lengths, 9), ...chunk];
        const width = heads.numHeads * heads.headDim;
        const inOrder = rows.map((_, m) => m);
        const alone = someOf(inOrder, 12).map((m) => [m]);
        const orders = [inOrder, shuffled(rows.length, 1), shuffled(rows.length, 2), ...alone];
        const wanted = new Map<string, Float32Array>();
        for (const [blockSize, numThreads] of [
          [16, 1],
          [8, 2],
          [16, 3],
          [32, 1],
        ] as const) {
          withBench(Bench.native(isa, numThreads), (bench) => {
            const stored = storeSequences(bench, { ...heads, kvType, blockSize }, sequences, blockSize);
            for (const window of [0, 70]) {
              const sinks = window === 0 ? undefined : normals(heads.numHeads, 12);
              for (const order of orders) {
                const together = order.map((m) => rows[m]!);
                const out = recordAttention(bench, stored, together, { scale: 0.16, window, sinks });
                bench.run();
                const got = bench.readF32(out);
                order.forEach((m, i) => {
                  const row = got.subarray(i * width, (i + 1) * width);
                  const name = `${window} ${m}`;
                  if (wanted.has(name)) expectSameBits(row, wanted.get(name)!);
                  else wanted.set(name, row);
                });
              }
            }
          });
        }
      });
    }

    it.each([3, 20, 300])("gives no numbers for a query that is none, of %i entries", (length) => {
      const heads = { numHeads: 2, numKvHeads: 1, headDim: 16 };
      const q = normals(32, 1);
      q[3] = Number.NaN;
      const input: AttentionInput = {
        shape: { ...heads, kvType: "f32", blockSize: 8 },
        sequences: [randomSequence(heads, length, 1)],
        rows: [{ sequence: 0, kvLength: length, q }],
        scale: 1,
        windows: [0],
      };
      const got = runAttention(Bench.native(isa), input);
      expect(got.subarray(0, 16).every(Number.isNaN)).toBe(true);
      expect(got.subarray(16).every(Number.isFinite)).toBe(true);
    });

    it("writes zeros for a row without entries", () => {
      const heads = { numHeads: 2, numKvHeads: 1, headDim: 8 };
      const input: AttentionInput = {
        shape: { ...heads, kvType: "f32", blockSize: 8 },
        sequences: [randomSequence(heads, 5, 1)],
        rows: [0, 5].map((kvLength) => ({ sequence: 0, kvLength, q: normals(16, 1) })),
        scale: 1,
        windows: [0],
      };
      const got = runAttention(Bench.native(isa), input);
      expectSameBits(got.subarray(0, 16), new Float32Array(16));
    });
  });
}
