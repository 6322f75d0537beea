/**
 * An expert gives a row the bits that `linear` and `gatedLinear` give it alone, whichever rows share the expert (E7):
 * for every weight type, with biases and without.
 */
import { describe, expect, it } from "vitest";
import { isLongRun, someOf } from "../../../../test/helpers/long.js";
import { Bench, expectSameBits, ISAS, normals, weightBytes, withBench } from "../../../../test/reference/compare.js";
import { BLOCK_LAYOUT, WEIGHT_TYPES, type WeightType } from "../../../formats/dequantize.js";
import { NO_BUFFER, type WeightHandle } from "../../handles.js";
import { gatedOperands } from "../../program.js";
import { activationsOf } from "../product-type.js";
import { activationRowBytes, packedActivations, packedByteLength } from "./packing.js";

const NUM_ROWS = 23;
const NUM_EXPERTS = 6;
const NUM_CHOSEN = 3;
const NUM_SLOTS = NUM_ROWS * NUM_CHOSEN;
const N = 37;

/** Every row has expert 4, so that one group is large; expert 1 has a single row, 0 none. */
const CHOSEN = Array.from({ length: NUM_ROWS }, (_, m) => [4, m === 11 ? 1 : 2 + (m % 2), 5]).flat();

/** Rows whose products are also computed alone: among them the one that has expert 1 to itself. */
const ROWS_ALONE = [
  ...new Set([
    11,
    ...someOf(
      Array.from({ length: NUM_ROWS }, (_, m) => m),
      5,
    ),
  ]),
];

const FORMS = WEIGHT_TYPES.flatMap((type) =>
  packedActivations(type) === undefined
    ? [{ type, isPacked: false }]
    : [
        { type, isPacked: false },
        { type, isPacked: true },
      ],
);

function matrix(bench: Bench, type: WeightType, cols: number, isPacked: boolean, seed: number): WeightHandle {
  const inRows = bench.weight(type, N, cols, weightBytes(type, N, cols, seed));
  if (!isPacked) return inRows;
  const packed = bench.bytes(new Uint8Array(packedByteLength(type, N, cols)!));
  bench.program.record("pack", { out: packed, byteOffset: 0, weight: inRows });
  bench.run();
  return bench.device.createWeight(packed, 0, type, N, cols, true);
}

function check(bench: Bench, type: WeightType, isPacked: boolean, hasBiases: boolean): void {
  const cols = 2 * Math.max(32, BLOCK_LAYOUT[type].numValues);
  const format = activationsOf(type, isPacked);
  const rowBytes = activationRowBytes(format, cols);
  const matrices = (seed: number) =>
    Array.from({ length: NUM_EXPERTS }, (_, e) => matrix(bench, type, cols, isPacked, seed + e));
  const [gates, ups] = [matrices(1), matrices(20)];
  const values = normals(NUM_ROWS * cols, 3);
  const x = bench.bytes(new Uint8Array(NUM_SLOTS * rowBytes));
  const groups = bench.i32(new Int32Array(3 * NUM_EXPERTS));
  const places = bench.i32(new Int32Array(NUM_SLOTS));
  const [out, product, scratch] = [1, 2, 3].map(() => bench.unwritten(NUM_SLOTS * N)) as [never, never, never];
  const choice = { numRows: NUM_ROWS, numChosen: NUM_CHOSEN };
  const [gateWeights, upWeights] = [gates, ups].map((each) => bench.device.createWeightStack(each)) as [never, never];
  const { program } = bench;
  program.record("groupExperts", { ...choice, groups, places, experts: bench.i32(CHOSEN), numExperts: NUM_EXPERTS });
  program.record("dispatchRows", { ...choice, out: x, x: bench.f32(values), places, width: cols, format });
  const grouped = { groups, numSlots: NUM_SLOTS };
  const kind = hasBiases ? "clampedSwiglu" : "silu";
  const biasValues = [40, 41].map((seed) => normals(NUM_EXPERTS * N, seed));
  const [gateBiases, upBiases] = biasValues.map((values) => (hasBiases ? bench.f32(values) : NO_BUFFER));
  const biasOf = (side: 0 | 1, expert: number) =>
    hasBiases ? bench.f32(biasValues[side]!.subarray(expert * N, (expert + 1) * N)) : NO_BUFFER;
  const gated = { out, scratch, gateX: x, gateWeights, upX: x, upWeights, gateBiases, upBiases, kind } as const;
  program.record("expertGatedLinear", { ...grouped, ...gated });
  program.record("expertLinear", { ...grouped, out: product, x, weights: upWeights, biases: upBiases });
  bench.run();
  const placeOf = bench.readI32(places);
  const [gotGated, gotProduct] = [bench.readF32(out), bench.readF32(product)];
  expect([...placeOf].sort((a, b) => a - b)).toEqual(Array.from({ length: NUM_SLOTS }, (_, i) => i));
  for (const m of ROWS_ALONE) {
    const row = bench.f32(values.subarray(m * cols, (m + 1) * cols));
    let left = row;
    if (format !== "f32") {
      left = bench.bytes(new Uint8Array(rowBytes));
      program.record("quantize", { out: left, x: row, numRows: 1, width: cols, format });
    }
    for (let s = 0; s < NUM_CHOSEN; s++) {
      const expert = CHOSEN[m * NUM_CHOSEN + s]!;
      const [gate, up] = ([0, 1] as const).map((side) => ({
        x: left,
        weight: [gates, ups][side]![expert]!,
        bias: biasOf(side, expert),
      }));
      const [alone, aloneProduct] = [bench.unwritten(N), bench.unwritten(N)];
      const operands = { out: alone, scratch: bench.unwritten(N), numRows: 1, kind } as const;
      program.record("gatedLinear", { ...operands, ...gatedOperands(gate!, up!) });
      program.record("linear", { out: aloneProduct, ...up!, numRows: 1 });
      bench.run();
      const from = placeOf[m * NUM_CHOSEN + s]! * N;
      expectSameBits(gotGated.subarray(from, from + N), bench.readF32(alone));
      expectSameBits(gotProduct.subarray(from, from + N), bench.readF32(aloneProduct));
    }
  }
}

describe.each(ISAS)("experts on $isa", ({ isa, isMissing }) => {
  const at = ISAS.findIndex((each) => each.isa === isa);
  for (const [index, { type, isPacked }] of FORMS.entries()) {
    it.skipIf(isMissing)(`${type}${isPacked ? ", packed" : ""}`, () => {
      withBench(Bench.native(isa, 2), (bench) => {
        // In npm test, neighbours have them in turn.
        const all = isLongRun ? [false, true] : [(index + at) % 2 === 0];
        for (const hasBiases of all) check(bench, type, isPacked, hasBiases);
      });
    });
  }
});

it("arbitrary groups, places and experts are left out without a crash", () => {
  withBench(Bench.native("portable", 2), (bench) => {
    const stack = bench.device.createWeightStack([bench.weight("F32", 4, 4, new Uint8Array(64))]);
    const x = bench.f32(normals(16, 1));
    for (const wild of [-1, 2, 2 ** 31 - 1, -(2 ** 31)]) {
      const out = bench.f32([1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]);
      const before = bench.readF32(out);
      for (const group of [
        [wild, 0, 1],
        [0, wild, 3],
        [0, 2, wild === 2 ? 3 : wild],
      ]) {
        bench.program.record("expertLinear", { out, x, weights: stack, groups: bench.i32(group), numSlots: 4 });
      }
      const places = bench.i32([wild === 2 ? 4 : wild, -1, -1, -5]);
      bench.program.record("dispatchRows", { out, x, places, numRows: 2, numChosen: 2, width: 4, format: "f32" });
      const weights = bench.f32([1, 1, 1, 1]);
      bench.program.record("combineExperts", { out, x, places, weights, numRows: 2, numChosen: 2, width: 4 });
      const choice = { numRows: 2, numExperts: 3, numChosen: 2, experts: bench.i32([wild, wild, 1, 1]) };
      const groups = bench.i32(new Int32Array(9));
      bench.program.record("groupExperts", { ...choice, groups, places: bench.i32(new Int32Array(4)) });
      bench.run();
      expectSameBits(bench.readF32(out), before);
    }
  });
});

it("a stack is of one type and shape, and ends with its memory", () => {
  withBench(Bench.native("portable"), ({ device }) => {
    const source = device.allocate(64);
    const weight = device.createWeight(source, 0, "F32", 4, 4);
    const others = [device.createWeight(source, 0, "F32", 2, 4), device.createWeight(source, 0, "F16", 4, 4)];
    const refusal = expect.objectContaining({ code: "kernels_argument" });
    for (const other of others) expect(() => device.createWeightStack([weight, other])).toThrow(refusal);
    expect(() => device.createWeightStack([])).toThrow(refusal);
    expect(() => device.createWeightStack([source as never])).toThrow(refusal);
    const bench = new Bench(device);
    const stack = device.createWeightStack([weight]);
    const [out, x, groups] = [bench.unwritten(4), bench.f32([1, 2, 3, 4]), bench.i32([0, 0, 1])];
    const record = () => bench.program.record("expertLinear", { out, x, weights: stack, groups, numSlots: 1 });
    record();
    bench.run();
    device.release(source);
    record();
    expect(() => bench.run()).toThrow(refusal);
  });
});
