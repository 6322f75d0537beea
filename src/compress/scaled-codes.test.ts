import { expect, test } from "vitest";
import { normals } from "../../test/reference/compare.js";
import { e4m3Of, scaledGroups, scaledRows, scaledSquares } from "./scaled-codes.js";

/** The finite values of E4M3, by code. */
const E4M3 = Array.from({ length: 127 }, (_, code) => {
  const [exponent, fraction] = [code >> 3, (code & 7) / 8];
  return exponent === 0 ? fraction * 2 ** -6 : (1 + fraction) * 2 ** (exponent - 7);
});

test("E4M3 has every value, rounds to the nearest with ties to even, and saturates", () => {
  E4M3.forEach((value, code) => {
    expect([e4m3Of(value), e4m3Of(-value)]).toEqual([code, value === 0 ? 128 : 128 + code]);
    const next = E4M3[code + 1];
    if (next === undefined) return;
    expect(e4m3Of((value + next) / 2)).toBe(code % 2 === 0 ? code : code + 1);
    expect(e4m3Of(0.51 * next + 0.49 * value)).toBe(code + 1);
  });
  expect([e4m3Of(1e9), e4m3Of(-1e9)]).toEqual([126, 254]);
});

test("a row's largest magnitude is the type's; rows and squares of zeros have a scale too", () => {
  const values = Float32Array.of(0, -2, 1, 0.5, 0, 0, 0, 0);
  expect(scaledRows(values, 4, "int8")).toEqual({
    codes: Uint8Array.of(0, 256 - 127, 64, 32, 0, 0, 0, 0),
    scales: Float32Array.of(2 / 127, 1),
  });
  const { codes, scales } = scaledSquares(values, 4, 2);
  expect([...scales]).toEqual([2 / 448, 1 / 448].map(Math.fround));
  expect([...codes]).toEqual([0, 254, 126, e4m3Of(224), 0, 0, 0, 0].map((code) => (code === 254 ? 0xfe : code)));
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
    const { codes, scales } = scaledGroups(values, cols, group, type, weights);
    return codes.reduce((sum, code, i) => {
      const bits = scales[Math.floor(i / group)]!;
      const scale = type === "F32" ? bits : type === "F16" ? halfOf(bits) : brainOf(bits);
      return sum + measure(i % cols) * (values[i]! - (code - 8) * scale) ** 2;
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
