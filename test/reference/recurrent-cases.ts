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
    { width: 70, taps: 4, isActivated: true, isBiased: true },
    { width: 200, taps: 4, isActivated: true },
  ].map(({ width, taps, isActivated, isBiased }) => ({
    op: "causalConv",
    label: `nine rows of ${width}, ${taps} taps${isActivated ? "" : ", without SiLU"}${isBiased ? ", with a bias" : ""}`,
    record: (bench) => {
      const { all, copies } = rowsOf(bench);
      const out = bench.unwritten(all.numRows * width);
      const state = bench.f32(normals(Math.max(1, NUM_SLOTS * (taps - 1) * width), 90));
      const x = bench.f32(normals(all.numRows * width, 91));
      const kernel = bench.f32(normals(taps * width, 92));
      const bias = isBiased ? bench.f32(normals(width, 101)) : undefined;
      bench.program.record("causalConv", { ...all, copies, out, x, kernel, bias, state, width, taps, isActivated });
      return [
        { name: "out", handle: out, as: "f32", tolerance: ROUNDING },
        { name: "state", handle: state, as: "f32", tolerance: { relative: 0, absolute: 0 } },
      ];
    },
  }));
}

/** Of all slots. The columns of padding are zero in every state that an engine has. */
function states(numHeads: number, numStateRows: number, valueDim: number): Float32Array {
  const numColumns = Math.ceil(valueDim / STATE_COLUMNS) * STATE_COLUMNS;
  return normals(NUM_SLOTS * numHeads * numStateRows * numColumns, 93).map((value, i) => {
    const block = Math.floor(i / (numStateRows * STATE_COLUMNS)) % (numColumns / STATE_COLUMNS);
    return block * STATE_COLUMNS + (i % STATE_COLUMNS) < valueDim ? value : 0;
  });
}

function scanCases(): OpCase[] {
  return [
    { numHeads: 1, numGroups: 1, stateDim: 3, valueDim: 5 },
    { numHeads: 6, numGroups: 2, stateDim: 16, valueDim: 40 },
    { numHeads: 4, numGroups: 4, stateDim: 130, valueDim: 64 },
  ].map((shape) => ({
    op: "selectiveScan",
    label: JSON.stringify(shape),
    record: (bench) => {
      const { numHeads, numGroups, stateDim, valueDim } = shape;
      const { all, copies } = rowsOf(bench);
      const out = bench.unwritten(all.numRows * numHeads * valueDim);
      const state = bench.f32(states(numHeads, stateDim, valueDim));
      const ofHeads = (seed: number) => bench.f32(normals(numHeads, seed));
      bench.program.record("selectiveScan", {
        ...all,
        ...shape,
        copies,
        out,
        x: bench.f32(normals(all.numRows * (numHeads * valueDim + 2 * numGroups * stateDim), 102)),
        steps: bench.f32(normals(all.numRows * numHeads, 103)),
        decay: bench.f32(normals(numHeads, 104).map((value) => -Math.exp(value))),
        bias: ofHeads(105),
        skip: ofHeads(106),
        state,
      });
      return [
        { name: "out", handle: out, as: "f32", tolerance: ROUNDING },
        { name: "state", handle: state, as: "f32", tolerance: ROUNDING },
      ];
    },
  }));
}

function gatedNormCases(): OpCase[] {
  return [
    { width: 1, numGroups: 1 },
    { width: 37, numGroups: 1 },
    { width: 36, numGroups: 4 },
    { width: 192, numGroups: 2 },
  ].map(({ width, numGroups }) => ({
    op: "gatedNorm",
    label: `three rows of ${width} in ${numGroups} parts`,
    record: (bench) => {
      const x = bench.f32(normals(3 * width, 107));
      const gate = bench.f32(normals(3 * width, 108).map((value) => 4 * value));
      const gain = bench.f32(normals(width, 109));
      bench.program.record("gatedNorm", { x, gate, gain, numRows: 3, width, numGroups, eps: 1e-5 });
      return [{ name: "x", handle: x, as: "f32", tolerance: { relative: 3e-6, absolute: 1e-7 } }];
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
      const state = bench.f32(states(numValueHeads, keyDim, valueDim));
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
  selectiveScan: scanCases(),
  gatedNorm: gatedNormCases(),
  applyGate: gateCases(),
} as const satisfies Partial<Record<OpName, readonly OpCase[]>>;
