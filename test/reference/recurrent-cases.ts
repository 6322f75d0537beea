/** Cases of the operations with recurrent state; what holds of any cut into steps is in kernels.recurrent.test.ts. */
import { type OpName, STATE_COLUMNS } from "../../src/backend/ops.js";
import { type Bench, normals } from "./compare.js";
import type { OpCase } from "./op-case.js";

const ROUNDING = { relative: 2e-5, absolute: 2e-6 };
const NUM_SLOTS = 4;

/** Three sequences: one from its start, one that goes on from slot 2, one with a single row; a copy in the middle. */
function rowsOf(bench: Bench) {
  const all = {
    sources: bench.i32([-1, -2, -2, -2, -2, 2, -2, -2, 0]),
    targets: bench.i32([-1, -1, -1, -1, 3, -1, -1, 2, 0]),
    numRows: 9,
    numSlots: NUM_SLOTS,
  };
  return { all, copies: bench.i32([-1, 1, -1, -1, -1, -1, -1, -1, -1]) };
}

function convCases(): OpCase[] {
  return [
    { width: 3, taps: 1, isActivated: true },
    { width: 70, taps: 2, isActivated: true },
    { width: 70, taps: 3, isActivated: false },
    { width: 200, taps: 4, isActivated: true },
  ].map(({ width, taps, isActivated }) => ({
    op: "causalConv",
    label: `nine rows of ${width}, ${taps} taps${isActivated ? "" : ", without SiLU"}`,
    record: (bench) => {
      const { all, copies } = rowsOf(bench);
      const out = bench.unwritten(all.numRows * width);
      const state = bench.f32(normals(Math.max(1, NUM_SLOTS * (taps - 1) * width), 90));
      const x = bench.f32(normals(all.numRows * width, 91));
      const kernel = bench.f32(normals(taps * width, 92));
      bench.program.record("causalConv", { ...all, copies, out, x, kernel, state, width, taps, isActivated });
      return [
        { name: "out", handle: out, as: "f32", tolerance: ROUNDING },
        { name: "state", handle: state, as: "f32", tolerance: { relative: 0, absolute: 0 } },
      ];
    },
  }));
}

function deltaCases(): OpCase[] {
  return [
    { numKeyHeads: 1, numValueHeads: 1, keyDim: 3, valueDim: 5, isTiled: false },
    { numKeyHeads: 2, numValueHeads: 6, keyDim: 16, valueDim: 40, isTiled: true },
    { numKeyHeads: 2, numValueHeads: 4, keyDim: 130, valueDim: 64, isTiled: false },
  ].map((shape) => ({
    op: "deltaRule",
    label: JSON.stringify(shape),
    record: (bench) => {
      const { numKeyHeads, numValueHeads, keyDim, valueDim } = shape;
      const { all, copies } = rowsOf(bench);
      const out = bench.unwritten(all.numRows * numValueHeads * valueDim);
      const numColumns = Math.ceil(valueDim / STATE_COLUMNS) * STATE_COLUMNS;
      // The columns of padding are zero in every state that an engine has.
      const values = normals(NUM_SLOTS * numValueHeads * keyDim * numColumns, 93).map((value, i) => {
        const block = Math.floor(i / (keyDim * STATE_COLUMNS)) % (numColumns / STATE_COLUMNS);
        return block * STATE_COLUMNS + (i % STATE_COLUMNS) < valueDim ? value : 0;
      });
      const state = bench.f32(values);
      const ofHeads = (seed: number) => bench.f32(normals(all.numRows * numValueHeads, seed));
      bench.program.record("deltaRule", {
        ...all,
        ...shape,
        copies,
        out,
        x: bench.f32(normals(all.numRows * (2 * numKeyHeads * keyDim + numValueHeads * valueDim), 94)),
        alpha: ofHeads(95),
        beta: ofHeads(96),
        decay: bench.f32(normals(numValueHeads, 97).map((value) => -Math.exp(value))),
        bias: bench.f32(normals(numValueHeads, 98)),
        state,
        eps: 1e-6,
      });
      return [
        { name: "out", handle: out, as: "f32", tolerance: ROUNDING },
        { name: "state", handle: state, as: "f32", tolerance: ROUNDING },
      ];
    },
  }));
}

function gateCases(): OpCase[] {
  return (["sigmoid", "silu"] as const).flatMap((kind) =>
    [
      { width: 1, gateWidth: 1 },
      { width: 37, gateWidth: 1 },
      { width: 37, gateWidth: 37 },
      { width: 96, gateWidth: 96 },
    ].map(({ width, gateWidth }) => ({
      op: "applyGate" as const,
      label: `three rows of ${width}, gates of ${gateWidth}, ${kind}`,
      record: (bench: Bench) => {
        const x = bench.f32(normals(3 * width, 99));
        const gate = bench.f32(normals(3 * gateWidth, 100).map((value) => 4 * value));
        bench.program.record("applyGate", { x, gate, numRows: 3, width, gateWidth, kind });
        return [{ name: "x", handle: x, as: "f32" as const, tolerance: { relative: 1e-6, absolute: 1e-7 } }];
      },
    })),
  );
}

export const RECURRENT_CASES = {
  causalConv: convCases(),
  deltaRule: deltaCases(),
  applyGate: gateCases(),
} as const satisfies Partial<Record<OpName, readonly OpCase[]>>;
