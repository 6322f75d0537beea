/** A malformed program is refused before anything runs, whichever operand is wrong, and the device works on. */
import { describe, expect, it, test } from "vitest";
import { NO_BUFFER } from "./kernels.js";
import { OP_NAMES } from "./program.js";
import { OPERAND_NAMES } from "./reference-operands.js";
import { wordsOf } from "./test-cases.js";
import { Bench, expectSameBits, normals, withBench } from "./test-helpers.js";
import { recordSample, type SampleRowInput } from "./test-recorders.js";

const refusal = expect.objectContaining({ code: "kernels_argument" });
const HEADER_WORDS = 3;

const NUMBERS = new Set(["scale", "eps", "magnitude"]);
const FLAGS = new Set(["accumulate", "kind", "isNeox"]);
const COUNTS = new Set([
  ...["numRows", "width", "half", "tableStride", "numHeads", "numKvHeads", "headDim", "blockSize"],
  ...["vocabSize", "topStride"],
]);
/** Integers in a range of their own, with what lies outside. */
const RANGED: Readonly<Record<string, readonly number[]>> = {
  window: [Number.NaN, -1, 0.5],
  kvType: [Number.NaN, -1, 3, 0.5],
  format: [Number.NaN, 0, 5, 1.5],
  byteOffset: [Number.NaN, -1, 0.5, 9, 2 ** 53],
};

/** Values that no operand of this name may have. */
function invalidValues(operand: string): readonly number[] {
  if (NUMBERS.has(operand)) return [Number.NaN, Number.POSITIVE_INFINITY];
  if (FLAGS.has(operand)) return [Number.NaN, -1, 2, 0.5];
  if (RANGED[operand] !== undefined) return RANGED[operand];
  if (COUNTS.has(operand)) return [Number.NaN, -1, 0.5, 1e9, 2 ** 40, Number.POSITIVE_INFINITY];
  const handles = [Number.NaN, -1, 0.5, 1e9, 2 ** 40, Number.POSITIVE_INFINITY];
  return operand.toLowerCase().endsWith("bias") ? handles : [0, ...handles];
}

const DEVICES = [
  { label: "the reference", open: () => Bench.reference() },
  { label: "native", open: () => Bench.native("portable", 2) },
];

describe.each(DEVICES)("malformed programs on $label", ({ open }) => {
  for (const op of OP_NAMES) {
    it(`refuses every operand of ${op} in turn`, () => {
      withBench(open(), (bench) => {
        const words = wordsOf(bench, op);
        const tooSmall = bench.device.allocate(2);
        OPERAND_NAMES[op].forEach((operand, index) => {
          const isNumber = NUMBERS.has(operand) || FLAGS.has(operand) || COUNTS.has(operand) || operand in RANGED;
          for (const value of [
            ...invalidValues(operand),
            ...(isNumber || operand.toLowerCase().endsWith("weight") ? [] : [tooSmall]),
          ]) {
            const tampered = words.slice();
            tampered[HEADER_WORDS + index] = value;
            expect(() => bench.device.submit(tampered, tampered.length), `${op} with ${operand} = ${value}`).toThrow(
              refusal,
            );
          }
        });
        bench.device.submit(words, words.length);
      });
    });
  }

  it("refuses broken headers and lengths", () => {
    withBench(open(), (bench) => {
      const words = wordsOf(bench, "add");
      for (const [at, value] of [0, 1, 2].flatMap((at) =>
        [-1, 0.5, 1000, Number.NaN, Number.POSITIVE_INFINITY].map((value) => [at, value] as const),
      )) {
        const tampered = words.slice();
        tampered[at] = value;
        expect(() => bench.device.submit(tampered, tampered.length), `word ${at} = ${value}`).toThrow(refusal);
      }
      for (let numWords = 1; numWords < words.length; numWords++) {
        expect(() => bench.device.submit(words, numWords), `${numWords} words`).toThrow(refusal);
      }
      for (const numWords of [words.length + 1, -1, 0.5, Number.NaN]) {
        expect(() => bench.device.submit(words, numWords), `${numWords} words`).toThrow(refusal);
      }
      bench.device.submit(words, 0);
      bench.device.submit(words, words.length);
    });
  });

  it("runs nothing of a program whose last operation is malformed", () => {
    withBench(open(), (bench) => {
      const values = normals(64, 1);
      const out = bench.f32(values);
      bench.program.add(out, bench.f32(values), 1, 64);
      bench.program.add(out, bench.f32(values), 1, 65);
      expect(() => bench.run()).toThrow(refusal);
      expectSameBits(bench.readF32(out), values);
    });
  });

  it("refuses a linear whose output is its input", () => {
    withBench(open(), (bench) => {
      const weight = bench.weight("F32", 4, 4, new Uint8Array(64));
      const x = bench.f32(normals(4, 1));
      bench.program.linear(x, x, weight, NO_BUFFER, 1);
      expect(() => bench.run()).toThrow(refusal);
    });
  });

  it("refuses an attention whose output is one of its index buffers", () => {
    const shape = { kvType: "f32", numHeads: 1, numKvHeads: 1, headDim: 4, blockSize: 8 } as const;
    withBench(open(), (bench) => {
      const x = bench.f32(new Float32Array(32));
      for (const same of [0, 1, 2]) {
        const out = bench.i32([0, 0, 0, 0]);
        const [lengths, sequences, tables] = [0, 1, 2].map((i) => (i === same ? out : bench.i32([0])));
        bench.program.pagedAttention(...([out, x, x, x, lengths!, sequences!, tables!, 1, 1, shape, 1, 0] as const));
        expect(() => bench.run(), `operand ${same}`).toThrow(refusal);
        bench.program.clear();
      }
    });
  });

  it("refuses indices that point outside", () => {
    const shape = { kvType: "f32", numHeads: 1, numKvHeads: 1, headDim: 4, blockSize: 8 } as const;
    withBench(open(), (bench) => {
      const x = bench.f32(new Float32Array(32));
      const weight = bench.weight("F32", 5, 4, new Uint8Array(80));
      const record: readonly ((index: number) => void)[] = [
        (index) => bench.program.embed(x, weight, bench.i32([0, index]), 2, 1),
        (index) => bench.program.gatherRows(bench.room(8), x, bench.i32([0, index]), 2, 4),
        (index) => bench.program.ropeAndWriteKv(x, x, x, x, x, x, bench.i32([0, index]), 2, shape, 1, false),
        (index) =>
          bench.program.pagedAttention(
            x,
            x,
            x,
            x,
            bench.i32([index]),
            bench.i32([0]),
            bench.i32([0]),
            1,
            1,
            shape,
            1,
            0,
          ),
        (index) =>
          bench.program.pagedAttention(
            x,
            x,
            x,
            x,
            bench.i32([1]),
            bench.i32([index]),
            bench.i32([0]),
            1,
            1,
            shape,
            1,
            0,
          ),
        (index) =>
          bench.program.pagedAttention(
            x,
            x,
            x,
            x,
            bench.i32([1]),
            bench.i32([0]),
            bench.i32([index]),
            1,
            1,
            shape,
            1,
            0,
          ),
      ];
      record.forEach((recordWith, i) => {
        for (const index of [-2, 9, 2 ** 31 - 1, -(2 ** 31)]) {
          recordWith(index);
          expect(() => bench.run(), `case ${i} with index ${index}`).toThrow(refusal);
          bench.program.clear();
        }
        recordWith(0);
        bench.run();
      });
    });
  });

  it("does not look at block table entries outside the window", () => {
    withBench(open(), (bench) => {
      const shape = { kvType: "f32", numHeads: 1, numKvHeads: 1, headDim: 1, blockSize: 8 } as const;
      const cache = bench.f32(new Float32Array(8).fill(3));
      const out = bench.room(1);
      const tables = bench.i32([-1, -1, 0, -1]);
      bench.program.pagedAttention(
        ...([out, bench.f32([1]), cache, cache, bench.i32([24]), bench.i32([0]), tables, 4, 1, shape, 1, 8] as const),
      );
      bench.run();
      expect([...bench.readF32(out)]).toEqual([3]);
    });
  });

  it("refuses sampler parameters that point outside or mean nothing", () => {
    const good: SampleRowInput = { logits: normals(9, 1), temperature: 1, prompt: [1], output: [2], banned: [3] };
    const bad: readonly Partial<SampleRowInput>[] = [
      { mode: 2 },
      { mode: 1, target: 9 },
      { mode: 1, target: -1 },
      { numTop: 5 },
      { numTop: -2 },
      { numTop: Number.NaN },
      { topK: Number.NaN },
      { topK: 1.5 },
      { temperature: -1 },
      { temperature: Number.NaN },
      { topP: Number.NaN },
      { topP: -0.1 },
      { minP: 1.1 },
      { repetitionPenalty: 0 },
      { presencePenalty: Number.POSITIVE_INFINITY },
      { frequencyPenalty: Number.NaN },
      { position: 0.5 },
      { prompt: [9] },
      { output: [-1] },
      { banned: [9] },
      { biases: [[9, 1]] },
    ];
    withBench(open(), (bench) => {
      for (const part of bad) {
        recordSample(bench, [good, { ...good, ...part }]);
        expect(() => bench.run(), JSON.stringify(part)).toThrow(refusal);
        bench.program.clear();
        recordSample(bench, [good]);
        bench.run();
      }
    });
  });
});

test("threads are pinned to CPUs that exist only", () => {
  withBench(Bench.native("portable", 2), ({ device }) => {
    for (const cpus of [[], [-1], [0.5], [1e6]]) expect(() => device.pinThreads(cpus)).toThrow(refusal);
  });
});
