/**
 * A malformed program is refused before any operation runs, whichever operand is wrong, and the device stays usable.
 */
import { describe, expect, it, test } from "vitest";
import { wordsOf } from "../../../../test/reference/cases.js";
import { Bench, expectSameBits, normals, withBench } from "../../../../test/reference/compare.js";
import { recordSample, type SampleRowInput } from "../../../../test/reference/recorders.js";
import type { BufferHandle } from "../../handles.js";
import { CODES, OP_NAMES, type OperandSpec, operandsIn } from "../../ops.js";
import { HEADER_WORDS } from "../../program.js";

/** Operands of one row that attends to one block. */
const SHAPE = { kvType: "f32", numHeads: 1, numKvHeads: 1, headDim: 4, blockSize: 8 } as const;
const ATTENDED = { ...SHAPE, tableStride: 1, numRows: 1, scale: 1, window: 0 } as const;

const refusal = expect.objectContaining({ code: "kernels_argument" });

const HANDLES = [Number.NaN, -1, 0.5, 1e9, 2 ** 40, Number.POSITIVE_INFINITY];

/** Invalid values for each kind of operand; `invalidValues` adds those of codes, required buffers and small buffers. */
const INVALID: Readonly<Record<Exclude<OperandSpec["kind"], "code">, readonly number[]>> = {
  integer: HANDLES,
  number: [Number.NaN, Number.POSITIVE_INFINITY],
  flag: [Number.NaN, -1, 2, 0.5],
  weight: HANDLES,
  weights: HANDLES,
  f32: HANDLES,
  i32: HANDLES,
  f64: HANDLES,
  bytes: HANDLES,
  activations: HANDLES,
  kvCache: HANDLES,
};

/** Invalid values of integers that may exceed the size of any buffer. */
const RANGED: Readonly<Record<string, readonly number[]>> = {
  window: [Number.NaN, -1, 0.5],
  byteOffset: [Number.NaN, -1, 0.5, 9, 2 ** 53],
};

/** Invalid values for the operand. @param tooSmall a buffer smaller than any operand needs */
function invalidValues(operand: string, spec: OperandSpec, tooSmall: BufferHandle): readonly number[] {
  if (RANGED[operand] !== undefined) return RANGED[operand];
  if (spec.kind === "code") return [Number.NaN, (spec.min ?? 0) - 1, (spec.max ?? CODES[spec.of].length - 1) + 1, 1.5];
  const values = [...INVALID[spec.kind]];
  if ("shape" in spec && !("optional" in spec)) values.push(0);
  if ("access" in spec) values.push(tooSmall);
  return values;
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
        operandsIn(op).forEach(([operand, spec], index) => {
          for (const value of invalidValues(operand, spec, tooSmall)) {
            const tampered = words.slice();
            tampered[HEADER_WORDS + index] = value;
            expect(() => bench.device.submit(tampered, tampered.length), `${op} with ${operand} = ${value}`).toThrow(
              expect.objectContaining({
                code: "kernels_argument",
                message: expect.stringContaining(`${op}: expected `),
              }),
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
      for (const width of [64, 65]) {
        bench.program.record("add", { out, x: bench.f32(values), numRows: 1, width });
      }
      expect(() => bench.run()).toThrow(refusal);
      expectSameBits(bench.readF32(out), values);
    });
  });

  it("refuses `linear` with the same buffer as output and input", () => {
    withBench(open(), (bench) => {
      const weight = bench.weight("F32", 4, 4, new Uint8Array(64));
      const x = bench.f32(normals(4, 1));
      bench.program.record("linear", { out: x, x, weight, numRows: 1 });
      expect(() => bench.run()).toThrow(refusal);
    });
  });

  it("refuses `pagedAttention` with an index buffer as its output", () => {
    withBench(open(), (bench) => {
      const x = bench.f32(new Float32Array(32));
      for (const same of [0, 1, 2]) {
        const out = bench.i32([0, 0, 0, 0]);
        const [kvLengths, sequenceIndex, blockTables] = [0, 1, 2].map((i) => (i === same ? out : bench.i32([0])));
        bench.program.record("pagedAttention", {
          ...ATTENDED,
          out,
          q: x,
          keyCache: x,
          valueCache: x,
          kvLengths: kvLengths!,
          sequenceIndex: sequenceIndex!,
          blockTables: blockTables!,
        });
        expect(() => bench.run(), `operand ${same}`).toThrow(refusal);
        bench.program.clear();
      }
    });
  });

  it("refuses indices out of range", () => {
    withBench(open(), (bench) => {
      const x = bench.f32(new Float32Array(32));
      const weight = bench.weight("F32", 5, 4, new Uint8Array(80));
      const two = (index: number) => bench.i32([0, index]);
      const attend = (kvLength: number, sequence: number, block: number): void => {
        const [kvLengths, sequenceIndex, blockTables] = [kvLength, sequence, block].map((value) => bench.i32([value]));
        bench.program.record("pagedAttention", {
          ...ATTENDED,
          out: x,
          q: x,
          keyCache: x,
          valueCache: x,
          kvLengths: kvLengths!,
          sequenceIndex: sequenceIndex!,
          blockTables: blockTables!,
        });
      };
      const record: readonly ((index: number) => void)[] = [
        (index) => bench.program.record("embed", { out: x, weight, ids: two(index), numRows: 2, scale: 1 }),
        (index) =>
          bench.program.record("gatherRows", { out: bench.unwritten(8), x, rows: two(index), numRows: 2, width: 4 }),
        (index) =>
          bench.program.record("ropeAndWriteKv", {
            ...SHAPE,
            q: x,
            k: x,
            v: x,
            table: x,
            keyCache: x,
            valueCache: x,
            slots: two(index),
            numRows: 2,
            half: 1,
            isNeox: false,
          }),
        (index) => attend(index, 0, 0),
        (index) => attend(1, index, 0),
        (index) => attend(1, 0, index),
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

  it.each(["pagedAttention", "scaleAndCap"] as const)("refuses a bound of %s below 0", (op) => {
    withBench(open(), (bench) => {
      const words = wordsOf(bench, op);
      words[HEADER_WORDS + operandsIn(op).findIndex(([operand]) => operand === "cap")] = -1;
      expect(() => bench.device.submit(words, words.length)).toThrow(refusal);
    });
  });

  it("refuses groups of experts that are none, or too few", () => {
    withBench(open(), (bench) => {
      const settings = { numRows: 1, numExperts: 6, numChosen: 3, normalises: true, scale: 1 } as const;
      const buffers = { experts: bench.i32([0, 0, 0]), weights: bench.unwritten(3), logits: bench.f32(normals(6, 1)) };
      const route = (numGroups: number, numUsedGroups: number) => {
        bench.program.clear();
        const scoring = "softmax";
        bench.program.record("routeExperts", { ...settings, ...buffers, scoring, numGroups, numUsedGroups });
        return () => bench.run();
      };
      for (const [numGroups, numUsedGroups] of [
        [0, 0],
        [4, 2],
        [6, 3],
        [3, 1],
        [3, 4],
      ] as const) {
        expect(route(numGroups, numUsedGroups), `${numUsedGroups} of ${numGroups}`).toThrow(refusal);
      }
      expect(route(3, 2)).not.toThrow();
    });
  });

  it("does not check block table entries outside the window", () => {
    withBench(open(), (bench) => {
      const cache = bench.f32(new Float32Array(8).fill(3));
      const out = bench.unwritten(1);
      bench.program.record("pagedAttention", {
        ...ATTENDED,
        headDim: 1,
        out,
        q: bench.f32([1]),
        keyCache: cache,
        valueCache: cache,
        kvLengths: bench.i32([24]),
        sequenceIndex: bench.i32([0]),
        window: 8,
        blockTables: bench.i32([-1, -1, 0, -1]),
        tableStride: 4,
      });
      bench.run();
      expect([...bench.readF32(out)]).toEqual([3]);
    });
  });

  it("refuses sampler parameters that are out of range or not numbers", () => {
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
      { lateBiases: [[9, 1]] },
      { topNSigma: -1 },
      { typicalP: Number.NaN },
      { xtcProbability: 1.1 },
      { xtcThreshold: -0.1 },
      { dynatempRange: Number.POSITIVE_INFINITY },
      { dynatempExponent: -1 },
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

test("pinning threads to CPUs that do not exist is refused", () => {
  withBench(Bench.native("portable", 2), ({ device }) => {
    for (const cpus of [[], [-1], [0.5], [1e6]]) expect(() => device.pinThreads(cpus)).toThrow(refusal);
  });
});
