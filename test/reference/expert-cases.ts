/** Cases of the operations of mixtures of experts; breadth is in kernels.experts.test.ts. */
import { activationRowBytes } from "../../src/backend/cpu/library/packing.js";
import type { WeightStackHandle } from "../../src/backend/handles.js";
import type { OpName } from "../../src/backend/ops.js";
import { type Bench, normals, weightBytes } from "./compare.js";
import type { OpCase } from "./op-case.js";

const ROUNDING = { relative: 1e-5, absolute: 1e-5 };

/** Three rows with two experts each: one of five experts has three slots, one has none. */
const CHOICE = { numRows: 3, numExperts: 5, numChosen: 2 } as const;
const CHOSEN = [4, 0, 2, 4, 4, 1];
const GROUPS = [4, 0, 3, 0, 3, 1, 1, 4, 1, 2, 5, 1, 0, 0, 0];
const SLOT_PLACES = [0, 3, 5, 1, 2, 4];

function stackOf(bench: Bench, rows: number, cols: number, seed: number): WeightStackHandle {
  const weights = Array.from({ length: CHOICE.numExperts }, (_, e) =>
    bench.weight("F32", rows, cols, weightBytes("F32", rows, cols, seed + e)),
  );
  return bench.device.createWeightStack(weights);
}

/** How routers differ. */
const ROUTERS = [
  { normalises: true },
  { normalises: false },
  { normalises: true, hasFactors: true },
  { normalises: false, scale: 2.5, numExperts: 6, numGroups: 3, numUsedGroups: 2 },
  { normalises: true, hasBias: true },
  { normalises: false, hasBias: true, scale: 1.5, numExperts: 6, numGroups: 3, numUsedGroups: 2 },
  { normalises: false, numExperts: 12, numGroups: 4, numUsedGroups: 1 },
  { scoring: "sparseMixer", normalises: false, numExperts: 300, numChosen: 2, scale: 1.5 },
  { scoring: "sparseMixer", normalises: false, hasBias: true, hasFactors: true },
  { scoring: "sparseMixer", normalises: false, numExperts: 6, numGroups: 3, numUsedGroups: 2 },
  { scoring: "sigmoid", normalises: false, scale: 0.5 },
  { scoring: "sigmoid", normalises: true, hasBias: true, scale: 1.5 },
  { scoring: "sigmoid", normalises: true, hasBias: true, numExperts: 8, numGroups: 4, numUsedGroups: 1 },
  { scoring: "sigmoid", normalises: true, hasBias: true, numExperts: 6, numGroups: 2, numUsedGroups: 2 },
] as const;

function routeCases(): OpCase[] {
  return ROUTERS.map((router) => ({
    op: "routeExperts",
    label: JSON.stringify(router),
    record: (bench) => {
      const { hasBias, hasFactors, ...settings } = { ...CHOICE, hasBias: false, hasFactors: false, ...router };
      const { numExperts } = settings;
      // The first row's experts are equal but for a bias.
      const logits = normals(3 * numExperts, 60).map((value, i) => (i < numExperts ? 1 : value));
      const experts = bench.i32([-1, -1, -1, -1, -1, -1]);
      const weights = bench.unwritten(6);
      bench.program.record("routeExperts", {
        scoring: "softmax",
        scale: 1,
        numGroups: 1,
        numUsedGroups: 1,
        ...settings,
        experts,
        weights,
        logits: bench.f32(logits),
        bias: hasBias ? bench.f32(normals(numExperts, 59)) : undefined,
        factors: hasFactors ? bench.f32(normals(numExperts, 58)) : undefined,
      });
      return [
        { name: "experts", handle: experts, as: "i32" },
        { name: "weights", handle: weights, as: "f32", tolerance: { relative: 1e-6, absolute: 0 } },
      ];
    },
  }));
}

const groupCases: readonly OpCase[] = [
  {
    op: "groupExperts",
    label: "three rows",
    record: (bench) => {
      const groups = bench.i32(new Int32Array(15).fill(-1));
      const places = bench.i32(new Int32Array(6).fill(-1));
      bench.program.record("groupExperts", { ...CHOICE, groups, places, experts: bench.i32(CHOSEN) });
      return [
        { name: "groups", handle: groups, as: "i32" },
        { name: "places", handle: places, as: "i32" },
      ];
    },
  },
];

function dispatchCases(): OpCase[] {
  return (["blocks16", "blocks32", "row16", "f32"] as const).map((format) => ({
    op: "dispatchRows",
    label: `three rows to ${format}`,
    record: (bench) => {
      const out = bench.bytes(new Uint8Array(6 * activationRowBytes(format, 32)));
      const [x, places] = [bench.f32(normals(96, 61)), bench.i32(SLOT_PLACES)];
      bench.program.record("dispatchRows", { out, x, places, numRows: 3, numChosen: 2, width: 32, format });
      return [{ name: "out", handle: out, as: "i32" }];
    },
  }));
}

const gatedCases: readonly OpCase[] = (["silu", "clampedSwiglu"] as const).map((kind) => ({
  op: "expertGatedLinear",
  label: `F32 [5, 19, 12] on six places, ${kind}`,
  record: (bench) => {
    const out = bench.unwritten(6 * 19);
    const biases = (seed: number) => (kind === "silu" ? undefined : bench.f32(normals(5 * 19, seed)));
    bench.program.record("expertGatedLinear", {
      out,
      scratch: bench.unwritten(6 * 19),
      gateX: bench.f32(normals(72, 62)),
      gateWeights: stackOf(bench, 19, 12, 70),
      upX: bench.f32(normals(72, 63)),
      upWeights: stackOf(bench, 19, 12, 80),
      gateBiases: biases(67),
      upBiases: biases(68),
      groups: bench.i32(GROUPS),
      numSlots: 6,
      kind,
    });
    return [{ name: "out", handle: out, as: "f32", tolerance: ROUNDING }];
  },
}));

const linearCases: readonly OpCase[] = [false, true].map((hasBiases) => ({
  op: "expertLinear",
  label: `F32 [5, 19, 12] on six places${hasBiases ? ", with biases" : ""}`,
  record: (bench) => {
    const out = bench.unwritten(6 * 19);
    const [x, groups] = [bench.f32(normals(72, 64)), bench.i32(GROUPS)];
    const biases = hasBiases ? bench.f32(normals(5 * 19, 69)) : undefined;
    bench.program.record("expertLinear", { out, x, weights: stackOf(bench, 19, 12, 90), biases, groups, numSlots: 6 });
    return [{ name: "out", handle: out, as: "f32", tolerance: ROUNDING }];
  },
}));

/** Rows of one vector that is short, and of several whole ones too. */
const combineCases: readonly OpCase[] = [11, 150].flatMap((width) =>
  [false, true].map((hasBias) => ({
    op: "combineExperts",
    label: `three rows of ${width}${hasBias ? ", with a bias" : ""}`,
    record: (bench) => {
      const out = bench.f32(normals(3 * width, 65));
      const [x, places, weights] = [
        bench.f32(normals(6 * width, 66)),
        bench.i32(SLOT_PLACES),
        bench.f32(normals(6, 67)),
      ];
      const bias = hasBias ? bench.f32(normals(width, 68)) : undefined;
      bench.program.record("combineExperts", { out, x, places, weights, numRows: 3, numChosen: 2, width, bias });
      return [{ name: "out", handle: out, as: "f32", tolerance: ROUNDING }];
    },
  })),
);

export const EXPERT_CASES = {
  routeExperts: routeCases(),
  groupExperts: groupCases,
  dispatchRows: dispatchCases(),
  expertGatedLinear: gatedCases,
  expertLinear: linearCases,
  combineExperts: combineCases,
} as const satisfies Partial<Record<OpName, readonly OpCase[]>>;
