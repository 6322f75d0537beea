/**
 * What recurrent layers promise: a sequence's results do not depend on how its tokens are cut into steps, on its
 * neighbours, on threads or on the instruction set, bit for bit.
 */
import { describe, expect, it } from "vitest";
import { Bench, expectSameBits, ISAS, normals, once, withBench } from "../../../../test/reference/compare.js";
import { STATE_COLUMNS } from "../../ops.js";
import type { Isa } from "./kernels.js";

const SHAPE = { numKeyHeads: 2, numValueHeads: 4, keyDim: 37, valueDim: 48, isTiled: true } as const;
const TAPS = 4;
const WIDTH = 2 * SHAPE.numKeyHeads * SHAPE.keyDim + SHAPE.numValueHeads * SHAPE.valueDim;
const OUT = SHAPE.numValueHeads * SHAPE.valueDim;
const LENGTHS = [131, 20, 64];
const NUM_SLOTS = LENGTHS.length + 1;

/** Inputs of each sequence's tokens. */
const TEXTS = LENGTHS.map((length, s) => ({
  x: normals(length * WIDTH, 10 + s).map((value) => 2 * value),
  alpha: normals(length * SHAPE.numValueHeads, 20 + s),
  beta: normals(length * SHAPE.numValueHeads, 30 + s),
}));

interface Step {
  readonly sequence: number;
  readonly start: number;
  readonly end: number;
}

/** Runs steps of parts of the sequences. @returns the outputs of each sequence's tokens */
function outputsOf(isa: Isa, numThreads: number, steps: readonly (readonly Step[])[]): readonly Float32Array[] {
  return withBench(Bench.native(isa, numThreads), (bench) => {
    const numColumns = Math.ceil(SHAPE.valueDim / STATE_COLUMNS) * STATE_COLUMNS;
    const past = bench.f32(new Float32Array(NUM_SLOTS * (TAPS - 1) * WIDTH).fill(Number.NaN));
    const numValues = NUM_SLOTS * SHAPE.numValueHeads * SHAPE.keyDim * numColumns;
    const recurrent = bench.f32(new Float32Array(numValues).fill(Number.NaN));
    const kernel = bench.f32(normals(TAPS * WIDTH, 40));
    const decay = bench.f32(Float32Array.of(-0.1, -0.5, -1, -3));
    const bias = bench.f32(normals(SHAPE.numValueHeads, 41));
    const outputs = LENGTHS.map((length) => new Float32Array(length * OUT));
    for (const step of steps) {
      const gathered = (key: "x" | "alpha" | "beta", width: number) =>
        bench.f32(
          Float32Array.from(
            step.flatMap(({ sequence, start, end }) => [...TEXTS[sequence]![key].subarray(start * width, end * width)]),
          ),
        );
      const numRows = step.reduce((sum, { start, end }) => sum + end - start, 0);
      const sources = step.flatMap(({ sequence, start, end }) =>
        Array.from({ length: end - start }, (_, i) => (i > 0 ? -2 : start === 0 ? -1 : sequence)),
      );
      const targets = step.flatMap(({ sequence, start, end }) =>
        Array.from({ length: end - start }, (_, i) => (i === end - start - 1 ? sequence : -1)),
      );
      const rows = { sources: bench.i32(sources), targets: bench.i32(targets), numRows, numSlots: NUM_SLOTS };
      const convolved = bench.unwritten(numRows * WIDTH);
      const convolution = {
        out: convolved,
        x: gathered("x", WIDTH),
        kernel,
        state: past,
        width: WIDTH,
        taps: TAPS,
        isActivated: true,
      };
      bench.program.record("causalConv", { ...rows, ...convolution });
      const out = bench.unwritten(numRows * OUT);
      bench.program.record("deltaRule", {
        ...rows,
        ...SHAPE,
        out,
        x: convolved,
        alpha: gathered("alpha", SHAPE.numValueHeads),
        beta: gathered("beta", SHAPE.numValueHeads),
        decay,
        bias,
        state: recurrent,
        eps: 1e-6,
      });
      bench.run();
      let row = 0;
      const values = bench.readF32(out);
      for (const { sequence, start, end } of step) {
        outputs[sequence]!.set(values.subarray(row * OUT, (row + end - start) * OUT), start * OUT);
        row += end - start;
      }
    }
    return outputs;
  });
}

/** Each sequence alone, in parts of `size` tokens. */
const alone = (size: number): Step[][] =>
  LENGTHS.flatMap((length, sequence) =>
    Array.from({ length: Math.ceil(length / size) }, (_, i) => [
      { sequence, start: i * size, end: Math.min(length, (i + 1) * size) },
    ]),
  );

/** All sequences side by side, in parts of other sizes each. */
function together(): Step[][] {
  const steps: Step[][] = [];
  const done = LENGTHS.map(() => 0);
  for (let i = 0; done.some((count, s) => count < LENGTHS[s]!); i++) {
    const step = LENGTHS.flatMap((length, sequence): Step[] => {
      const start = done[sequence]!;
      const end = Math.min(length, start + 1 + ((7 * i + 5 * sequence) % 11));
      done[sequence] = end;
      return start === end ? [] : [{ sequence, start, end }];
    });
    steps.push(step);
  }
  return steps;
}

const wanted = once(() => outputsOf("portable", 1, alone(1)));

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(isa, () => {
    it.each([1, 7, 64, 65, 1000])("computes a text in parts of %i as token by token", (size) => {
      outputsOf(isa, 2, alone(size)).forEach((values, s) => {
        expectSameBits(values, wanted()[s]!);
      });
    });

    it.each([1, 3])("computes sequences side by side as alone, on %i threads", (numThreads) => {
      outputsOf(isa, numThreads, together()).forEach((values, s) => {
        expectSameBits(values, wanted()[s]!);
      });
    });
  });
}

it("gives numbers that differ from token to token", () => {
  for (const values of wanted()) {
    expect(values.every(Number.isFinite)).toBe(true);
    expect(new Set(values).size).toBeGreaterThan(values.length / 2);
  }
});
