import { expect, test } from "vitest";
import { normals } from "../../test/reference/compare.js";
import { E2M1 } from "../../test/reference/weights.js";
import { E4M3 } from "../formats/dequantize.js";
import { fp4Scales, groupScales, rowScales, squareScales } from "./scales.js";

test("a row's largest magnitude is the type's; rows and squares of zeros have a scale too", () => {
  const values = Float32Array.of(0, -2, 1, 0.5, 0, 0, 0, 0);
  expect(rowScales(values, 4, "int8")).toEqual(Float32Array.of(2 / 127, 1));
  expect([...squareScales(values, 4, 2)]).toEqual([2 / 448, 1 / 448].map(Math.fround));
});

test.each([
  "F16",
  "BF16",
  "F32",
] as const)("groups with %s scales lose less than by the largest magnitude, least where it matters", (type) => {
  const [cols, group] = [256, 64];
  const values = normals(8 * cols, 3);
  const importance = Float32Array.from({ length: cols }, (_, col) => (col % 7 === 0 ? 20 : 1));
  const errorOf = (weights: Float32Array | undefined, measure: (col: number) => number): number => {
    const { stored, values: scales } = groupScales(values, cols, group, type, weights);
    return values.reduce((sum, value, i) => {
      const bits = stored[Math.floor(i / group)]!;
      const scale = type === "F32" ? bits : type === "F16" ? halfOf(bits) : brainOf(bits);
      expect(scale).toBe(scales[Math.floor(i / group)]);
      const code = Math.max(-8, Math.min(7, Math.round(value / scale)));
      return sum + measure(i % cols) * (value - code * scale) ** 2;
    }, 0);
  };
  const plain = values.reduce((sum, value, i) => {
    const start = Math.floor(i / group) * group;
    const scale = Math.max(...values.subarray(start, start + group).map(Math.abs)) / 7;
    return sum + (value - scale * Math.round(value / scale)) ** 2;
  }, 0);
  expect(errorOf(undefined, () => 1)).toBeLessThan(0.9 * plain);
  const measure = (col: number): number => importance[col]!;
  expect(errorOf(importance, measure)).toBeLessThan(errorOf(undefined, measure));
});

const brainOf = (bits: number): number => new Float32Array(Uint32Array.of(bits << 16).buffer)[0]!;
const halfOf = (bits: number): number => (1 + (bits & 1023) / 1024) * 2 ** ((bits >> 10) - 15);

test("NVFP4's scales lose less than by the largest magnitude, least where it matters, and are numbers of E4M3", () => {
  const cols = 256;
  const values = normals(8 * cols, 5);
  const importance = Float32Array.from({ length: cols }, (_, col) => (col % 7 === 0 ? 20 : 1));
  const nearest = (magnitude: number): number =>
    E2M1.reduce((best, each) => (Math.abs(each - magnitude) < Math.abs(best - magnitude) ? each : best));
  const errorWith = (scaleOf: (group: number) => number, measure: (col: number) => number): number =>
    values.reduce((sum, value, i) => {
      const scale = scaleOf(i >> 4);
      return sum + measure(i % cols) * (Math.abs(value) - scale * nearest(Math.abs(value) / scale)) ** 2;
    }, 0);
  const errorOf = (weights: Float32Array | undefined, measure: (col: number) => number): number => {
    const { stored, divisor, values: scales } = fp4Scales(values, cols, weights);
    for (const [g, code] of stored.entries()) expect(scales[g]).toBe(Math.fround(E4M3[code]! / divisor));
    return errorWith((g) => scales[g]!, measure);
  };
  const byLargest = (g: number): number => Math.max(...values.subarray(16 * g, 16 * g + 16).map(Math.abs)) / 6;
  expect(errorOf(undefined, () => 1)).toBeLessThan(0.9 * errorWith(byLargest, () => 1));
  const measure = (col: number): number => importance[col]!;
  expect(errorOf(importance, measure)).toBeLessThan(errorOf(undefined, measure));
});

test("NVFP4's scales hold values of any size", () => {
  const tiny = fp4Scales(new Float32Array(32).fill(1e-42), 32, undefined);
  expect(tiny.divisor).toBe(1);
  expect(fp4Scales(new Float32Array(16), 16, undefined)).toMatchObject({ divisor: 1, stored: Uint8Array.of(1) });
  const { divisor, values } = fp4Scales(
    Float32Array.from({ length: 32 }, (_, i) => (i < 16 ? 3e38 : 1)),
    32,
    undefined,
  );
  expect(divisor * 3e38).toBeCloseTo(448 * 6, 2);
  expect(values.every((scale) => scale > 0 && Number.isFinite(scale))).toBe(true);
});
