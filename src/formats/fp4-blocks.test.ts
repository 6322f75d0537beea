/** Codes and scales as safetensors files have them, and blocks of GGUF files, under the scale of their matrix. */
import { expect, it } from "vitest";
import { dequantizeRow, E4M3 } from "./dequantize.js";
import { scaleNvfp4, writeNvfp4 } from "./fp4-blocks.js";

/** Values of E2M1 by code (OCP Microscaling formats, 2023). */
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6];

it("two columns a byte and a scale for sixteen become blocks of the same values", () => {
  const numBlocks = 3;
  const codes = Uint8Array.from({ length: 32 * numBlocks }, (_, i) => (i * 37 + 11) & 255);
  const scales = Uint8Array.from({ length: 4 * numBlocks }, (_, i) => (i * 29) % 127);
  const target = new Uint8Array(40 * numBlocks + 8);
  writeNvfp4(codes, scales, 0.75, target.subarray(8));
  const wanted = Float32Array.from({ length: 64 * numBlocks }, (_, col) => {
    const code = (codes[col >> 1]! >> (4 * (col & 1))) & 15;
    return 0.75 * E4M3[scales[col >> 4]!]! * E2M1[code]!;
  });
  const values = dequantizeRow("NVFP4_SCALED", target.subarray(8), wanted.length);
  // Plus zero, so that zeros have one sign.
  expect(values.map((value) => value + 0)).toEqual(wanted.map((value) => value + 0));
});

it("blocks are moved in place, each row's behind its scale", () => {
  const [rows, cols] = [3, 128];
  const blocks = Uint8Array.from({ length: rows * 72 }, (_, i) => (i * 41 + 5) % 127);
  const target = new ArrayBuffer(rows * 80);
  new Uint8Array(target, rows * 8).set(blocks);
  const scales = Float32Array.of(2, -0.5, 1e-3);
  scaleNvfp4(target, scales);
  for (let row = 0; row < rows; row++) {
    const plain = dequantizeRow("NVFP4", blocks.subarray(row * 72), cols);
    const scaled = dequantizeRow("NVFP4_SCALED", new Uint8Array(target, row * 80, 80), cols);
    expect(scaled).toEqual(plain.map((value) => value * scales[row]!));
  }
});
