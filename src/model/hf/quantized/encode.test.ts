/** Half precision bits, against the decoder; and quantised layers that are incomplete or of a kind that is not read. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixture } from "../../../../test/helpers/fixtures.js";
import { dequantizeRow } from "../../../formats/dequantize.js";
import { JsonObject } from "../../../formats/files/json.js";
import { readSafetensors } from "../../../formats/safetensors/read.js";
import { encodedType, encodeRows, halfBits } from "./encode.js";
import { evenGrid, type QuantizedMatrix } from "./matrix.js";
import { CheckpointQuantization } from "./open.js";
import { LayerTensors } from "./tensors.js";

const decodeHalf = (bits: number) => dequantizeRow("F16", new Uint8Array(Uint16Array.of(bits).buffer), 1)[0]!;

describe("halfBits", () => {
  it("has every finite half", () => {
    for (let bits = 0; bits < 0x1_0000; bits++) {
      if ((bits & 0x7c00) !== 0x7c00) expect(halfBits(decodeHalf(bits))).toBe(bits);
    }
  });

  it("is none for values between halves, too large or not finite", () => {
    const values = [1 + 2 ** -11, 2 ** -25, 2 ** -24 * 1.5, 2 ** 16, 65_504 + 16, Number.NaN, Number.POSITIVE_INFINITY];
    for (const value of values) expect(halfBits(value), String(value)).toBeUndefined();
  });
});

it("rows are the same whichever tiles they are read in", () => {
  const cols = 64;
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.nat(39), fc.nat(39), (eighths, first, second) => {
      const rowAlignment = 8 * eighths;
      const [start, end] = [Math.min(first, second), Math.max(first, second) + 1];
      const matrix: QuantizedMatrix = {
        rows: 40,
        cols,
        scales: evenGrid(
          Float32Array.from({ length: 80 }, (_, i) => 2 ** -(i % 9)),
          cols,
          { rowsPerScale: 1, colsPerScale: 32 },
        ),
        range: [-16, 15],
        rowAlignment,
        readCodes: (from, numRows) => {
          expect(from % rowAlignment).toBe(0);
          return Int16Array.from({ length: numRows * cols }, (_, i) => (((from * cols + i) * 7) % 32) - 16);
        },
      };
      expect(encodedType(matrix)).toBe("Q5_0");
      const blocks = new ArrayBuffer((end - start) * 44);
      encodeRows(matrix, "Q5_0", start, end - start, blocks);
      const floats = new ArrayBuffer((end - start) * cols * 4);
      encodeRows(matrix, "F32", start, end - start, floats);
      for (let row = 0; row < end - start; row++) {
        const values = dequantizeRow("Q5_0", new Uint8Array(blocks, row * 44, 44), cols);
        expect(values.map((value) => value + 0)).toEqual(
          new Float32Array(floats, row * cols * 4, cols).map((v) => v + 0),
        );
      }
    }),
    { seed: 5, numRuns: 60 },
  );
});

it.each([
  ["I8", [-8, 7]],
  ["F8_E4M3", "F8_E4M3"],
] as const)("scales that F16 does not hold make %s blocks of the very weights", (type, range) => {
  const [rows, cols] = [3, 64];
  const matrix: QuantizedMatrix = {
    rows,
    cols,
    range,
    rowAlignment: 1,
    scales: evenGrid(Float32Array.of(0.1, 1e-9, -3, 1e30, 0.3, 7), cols, { rowsPerScale: 1, colsPerScale: 32 }),
    readCodes: (from, numRows) => {
      const codes = Array.from({ length: numRows * cols }, (_, i) => (from * cols + i) * 5);
      return type === "I8" ? Int16Array.from(codes, (code) => (code % 16) - 8) : Uint8Array.from(codes);
    },
  };
  expect(encodedType(matrix)).toBe(type);
  expect(encodedType({ ...matrix, cols: 63 })).toBe("F32");
  const [blocks, floats] = [new ArrayBuffer(rows * 72), new ArrayBuffer(rows * cols * 4)];
  encodeRows(matrix, type, 0, rows, blocks);
  encodeRows(matrix, "F32", 0, rows, floats);
  for (let row = 0; row < rows; row++) {
    const values = dequantizeRow(type, new Uint8Array(blocks, 72 * row, 72), cols);
    expect(values).toEqual(new Float32Array(floats, row * cols * 4, cols));
  }
});

describe("a layer is refused when", () => {
  const LAYER = "model.layers.0.self_attn.q_proj";
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "millrace-quantized-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** The layer of a fixture after the header's text and the settings were changed. */
  function open(
    format: string,
    { settings = {}, header = (text: string) => text, shape = [64, 64] as [number, number] },
  ): void {
    cpSync(fixture(`hf-quantized/${format}`), folder, { recursive: true });
    const path = join(folder, "model.safetensors");
    const bytes = readFileSync(path);
    const length = Number(bytes.readBigUInt64LE());
    // Padded to its old length, as the data must not move.
    const changed = header(bytes.toString("utf8", 8, 8 + length).trimEnd()).padEnd(length);
    expect(changed).toHaveLength(length);
    bytes.write(changed, 8);
    writeFileSync(path, bytes);
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as Record<string, object>;
    const json = { ...config, quantization_config: { ...config.quantization_config, ...settings } };
    const quantization = new CheckpointQuantization(new JsonObject(json, "config.json", ""));
    quantization.open(new LayerTensors(readSafetensors(folder), LAYER), shape);
  }

  const rename = (part: string, other: string) => (text: string) =>
    text.replace(`"${LAYER}.${part}"`, `"${LAYER}.${other}"`);

  it.each<[string, string, Parameters<typeof open>[1], RegExp]>([
    [
      "it has another shape",
      "awq",
      { shape: [64, 32] },
      /^model_tensor: .*q_proj\.qweight as I32 \[32,8\], got I32 \[64,8\]/,
    ],
    ["AWQ rows fill no words", "awq", { shape: [60, 64] }, /^model_tensor: .*a multiple of 8 rows, got 60/],
    [
      "zero points are missing",
      "gptq",
      { header: rename("qzeros", "qzzros") },
      /^model_tensor: .*qzeros as I32 \[2,8\], got none/,
    ],
    [
      "scales are missing",
      "pack-symmetric",
      { header: rename("weight_scale", "weight_scals") },
      /^model_tensor: .*weight_scale/,
    ],
    [
      "FP8 has no scale",
      "fp8-tensor",
      { header: rename("weight_scale", "weight_scals") },
      /^model_tensor: .*weight_scale as F32 .*, got none/,
    ],
    [
      "GPTQ has other bits",
      "gptq",
      { settings: { bits: 3 } },
      /^tensor_type_unsupported: .*quantization_config\.bits to be 4 or 8, got 3/,
    ],
    [
      "GPTQ is of an unknown version",
      "gptq",
      { settings: { checkpoint_format: "marlin" } },
      /^tensor_type_unsupported: .*checkpoint_format/,
    ],
    [
      "AWQ is packed for other kernels",
      "awq",
      { settings: { version: "gemv" } },
      /^tensor_type_unsupported: .*version to be gemm, got "gemv"/,
    ],
    [
      "the method is unknown",
      "awq",
      { settings: { quant_method: "hqq" } },
      /^tensor_type_unsupported: .*quant_method to be gptq or awq/,
    ],
    [
      "compressed weights have other bits",
      "pack-symmetric",
      { settings: { config_groups: { group_0: { weights: { num_bits: 3 } } } } },
      /^tensor_type_unsupported: .*config_groups/,
    ],
    [
      "activations are rotated",
      "pack-symmetric",
      { settings: { transform_config: { r1: {} } } },
      /^tensor_type_unsupported: .*transform_config/,
    ],
    [
      "blocks have no size",
      "fp8-block",
      { settings: { weight_block_size: [0, 128] } },
      /^tensor_type_unsupported: .*weight_block_size/,
    ],
  ])("%s", (_, format, change, expected) => {
    let outcome = "accepted";
    try {
      open(format, change);
    } catch (thrown) {
      const { code, message } = thrown as { code?: string; message: string };
      outcome = `${code}: ${message}`;
    }
    expect(outcome).toMatch(expected);
  });

  it("a column's group does not exist", () => {
    cpSync(fixture("hf-quantized/gptq-shuffled"), folder, { recursive: true });
    const tensor = readSafetensors(folder).tensors.get(`${LAYER}.g_idx`)!;
    const path = join(folder, "model.safetensors");
    const bytes = readFileSync(path);
    bytes.writeInt32LE(2, tensor.byteOffset + 12);
    writeFileSync(path, bytes);
    const json = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as Record<string, unknown>;
    const quantization = new CheckpointQuantization(new JsonObject(json, "config.json", ""));
    const openLayer = () => quantization.open(new LayerTensors(readSafetensors(folder), LAYER), [64, 64]);
    expect(openLayer).toThrow(/g_idx in 0\.\.1, got 2/);
  });
});
