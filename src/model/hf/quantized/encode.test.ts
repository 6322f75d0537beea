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
      /^model_tensor: .*weight_scale for 64 rows of 64: one, one a row, .*, got none/,
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
      "GPTQ's columns are in another order that is not told",
      "gptq-shuffled",
      { settings: { desc_act: true }, header: rename("g_idx", "g_idy") },
      /^model_tensor: .*q_proj\.g_idx of columns that desc_act has in another order, got none/,
    ],
    [
      "GPTQ has groups of another size",
      "gptq",
      { settings: { group_size: 16 } },
      /^model_tensor: .*4 groups of 16 columns of .*q_proj, got 2/,
    ],
    [
      "AWQ's groups have no size",
      "awq",
      { settings: { group_size: 0 } },
      /^tensor_type_unsupported: .*group_size to be a positive integer, or -1 for whole rows, got 0/,
    ],
    [
      "compressed weights are floats of 4 bits",
      "pack-symmetric",
      { settings: { config_groups: { group_0: { weights: { num_bits: 4, type: "float" } } } } },
      /^tensor_type_unsupported: .*config_groups to be groups of integer weights of 4 bits/,
    ],
    [
      "compressed weights should have zero points",
      "pack-symmetric",
      { settings: { config_groups: { group_0: { weights: { num_bits: 4, symmetric: false } } } } },
      /^model_tensor: .*weight_zero_point of weights that are not symmetric, got none/,
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

  it.each([
    ["a column's group does not exist", "gptq-shuffled", "g_idx", 2, /g_idx in 0\.\.1, got 2/],
    ["a scale is not a number", "fp8-tensor", "weight_scale", 0x7fc0_7fc0, /finite numbers in .*weight_scale, got NaN/],
  ])("%s", (_, format, part, word, expected) => {
    cpSync(fixture(`hf-quantized/${format}`), folder, { recursive: true });
    const tensor = readSafetensors(folder).tensors.get(`${LAYER}.${part}`)!;
    const path = join(folder, "model.safetensors");
    const bytes = readFileSync(path);
    // Within the tensor, whatever its type: one word, or what it has of one.
    const target = bytes.subarray(tensor.byteOffset, tensor.byteOffset + tensor.byteLength);
    for (let i = 0; i < Math.min(4, target.length); i++) target[i] = (word >>> (8 * i)) & 0xff;
    writeFileSync(path, bytes);
    const json = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as Record<string, unknown>;
    const quantization = new CheckpointQuantization(new JsonObject(json, "config.json", ""));
    const openLayer = () => quantization.open(new LayerTensors(readSafetensors(folder), LAYER), [64, 64]);
    expect(openLayer).toThrow(expected);
  });
});
