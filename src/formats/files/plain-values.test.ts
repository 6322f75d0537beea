import { expect, test } from "vitest";
import { dequantizeRow } from "../dequantize.js";
import { encodeValues, PLAIN_TYPES } from "./plain-values.js";

const read = (type: "F16" | "BF16", bits: Uint16Array) =>
  dequantizeRow(type, new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength), bits.length);

test.each(["F16", "BF16"] as const)("every number of %s is written as itself", (type) => {
  const bits = Uint16Array.from({ length: 65_536 }, (_, i) => i);
  const values = read(type, bits);
  const written = new Uint16Array(encodeValues(type, values).buffer);
  const differing = [...bits].filter((bit) => !Number.isNaN(values[bit]!) && written[bit] !== bit);
  expect(differing).toEqual([]);
  expect(Number.isNaN(read(type, new Uint16Array(encodeValues(type, Float32Array.of(Number.NaN)).buffer))[0]!)).toBe(
    true,
  );
});

test.each(["F16", "BF16"] as const)("%s rounds to the nearest number, and a tie to the even one", (type) => {
  const bits = Uint16Array.from({ length: type === "F16" ? 0x7bff : 0x7f7f }, (_, i) => i);
  const numbers = read(type, bits);
  const wrong: number[] = [];
  for (let i = 0; i + 1 < bits.length; i++) {
    const [low, high] = [numbers[i]!, numbers[i + 1]!];
    const middle = Math.fround((low + high) / 2);
    const below = Math.fround(low + (high - low) * 0.49);
    const above = Math.fround(low + (high - low) * 0.51);
    const got = new Uint16Array(encodeValues(type, Float32Array.of(below, middle, above)).buffer);
    // The smallest bfloat16 numbers are too close for an f32 to lie between.
    if (below !== low && got[0] !== i) wrong.push(i);
    if (middle !== low && middle !== high && got[1] !== (i % 2 === 0 ? i : i + 1)) wrong.push(i);
    if (above !== high && above !== low && got[2] !== i + 1) wrong.push(i);
  }
  expect(wrong).toEqual([]);
});

test("numbers beyond the largest half become infinite", () => {
  const halves = new Uint16Array(encodeValues("F16", Float32Array.of(65_519, 65_520, -1e30)).buffer);
  expect([...halves]).toEqual([0x7bff, 0x7c00, 0xfc00]);
});

test("F32 keeps all bits", () => {
  expect(PLAIN_TYPES).toContain("F32");
  const values = Float32Array.of(1.1, -0, 1e-45);
  expect(new Float32Array(encodeValues("F32", values).slice().buffer)).toEqual(values);
});
