/**
 * The TypeScript dequantiser against the values GGML's own Python package computes, and the f16 conversions against
 * every bit pattern.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dequantizeRow, f16ToNumber, numberToF16, rowByteLength, WEIGHT_TYPES } from "./dequantize.js";
import type { TensorType } from "./gguf/types.js";

interface VectorRow {
  readonly type: TensorType;
  readonly cols: number;
  readonly bytes: string;
  readonly values: string;
}

const vectors = JSON.parse(readFileSync(new URL("./dequantize.vectors.json", import.meta.url), "utf8")) as {
  readonly rows: readonly VectorRow[];
};

describe("dequantizeRow", () => {
  it("has vectors for every type", () => {
    expect(
      [
        ...vectors.rows.map((row) => row.type),
        "F8_E4M3",
        "I8",
        "NVFP4_SCALED",
        "Q8_0_INT8",
        "I8_INT8",
        "F8_E4M3_BF16",
        "BF16_BF16",
      ].sort(),
    ).toEqual([...WEIGHT_TYPES].sort());
  });

  for (const row of vectors.rows) {
    it(`equals GGML to the bit for ${row.type}`, () => {
      const bytes = new Uint8Array(Buffer.from(row.bytes, "base64"));
      expect(bytes.byteLength).toBe(rowByteLength(row.type, row.cols));
      const got = dequantizeRow(row.type, bytes, row.cols);
      expect(Buffer.from(got.buffer).toString("base64")).toBe(row.values);
    });

    it(`refuses ${row.type} rows that are too short`, () => {
      const bytes = new Uint8Array(Buffer.from(row.bytes, "base64")).subarray(1);
      expect(() => dequantizeRow(row.type, bytes, row.cols)).toThrow(
        expect.objectContaining({ code: "kernels_argument" }),
      );
    });
  }

  it.each([
    ["I8", [-128, -1, 0, 127], [-64, -0.5, 0, 63.5]],
    // Subnormals, a sign, the largest value, NaN.
    ["F8_E4M3", [1, 0x87, 0x38, 0x7e, 0x7f], [2 ** -10, -7 * 2 ** -10, 0.5, 224, Number.NaN]],
  ] as const)("reads %s bytes under an F32 scale", (type, codes, values) => {
    const block = new DataView(new ArrayBuffer(36));
    block.setFloat32(0, 0.5, true);
    codes.forEach((code, i) => {
      block.setUint8(4 + i, code);
    });
    const row = dequantizeRow(type, new Uint8Array(block.buffer), 32);
    expect([...row.subarray(0, codes.length)]).toEqual(values);
  });

  it("scales blocks of NVFP4 by the number in front of each", () => {
    const bytes = Buffer.from(vectors.rows.find(({ type }) => type === "NVFP4")!.bytes, "base64");
    const plain = dequantizeRow("NVFP4", bytes, 256);
    const scaled = Buffer.alloc(4 * 40);
    for (let block = 0; block < 4; block++) {
      scaled.writeFloatLE(0.3, 40 * block);
      bytes.copy(scaled, 40 * block + 4, 36 * block, 36 * (block + 1));
    }
    expect(dequantizeRow("NVFP4_SCALED", scaled, 256)).toEqual(plain.map((value) => value * Math.fround(0.3)));
  });

  it("refuses a row that is no whole number of blocks", () => {
    expect(() => dequantizeRow("Q4_0", new Uint8Array(64), 33)).toThrow(
      expect.objectContaining({ code: "kernels_argument" }),
    );
  });
});

describe("f16", () => {
  it("survives the way there and back for all 65,536 bit patterns", () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const isNan = (bits & 0x7c00) === 0x7c00 && (bits & 0x3ff) !== 0;
      const back = numberToF16(f16ToNumber(bits));
      if (back !== (isNan ? 0x7e00 : bits)) expect.fail(`0x${bits.toString(16)} came back as 0x${back.toString(16)}`);
    }
  });

  it("rounds to the nearest value, ties to the even one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0x7bfe }), fc.double({ min: 0, max: 1, noNaN: true }), (bits, fraction) => {
        const low = f16ToNumber(bits);
        const high = f16ToNumber(bits + 1);
        const value = low + (high - low) * fraction;
        const rounded = f16ToNumber(numberToF16(value));
        const nearest = Math.min(value - low, high - value);
        expect(Math.abs(rounded - value)).toBe(nearest);
      }),
      { seed: 11, numRuns: 2000 },
    );
    expect(numberToF16(1 + 2 ** -11)).toBe(0x3c00);
    expect(numberToF16(1 + 3 * 2 ** -11)).toBe(0x3c02);
    expect(numberToF16(2 ** -25)).toBe(0);
    expect(numberToF16(65519.99)).toBe(0x7bff);
    expect(numberToF16(65520)).toBe(0x7c00);
    expect(numberToF16(-1e30)).toBe(0xfc00);
  });
});
