/**
 * Quantised folders, written by the formats' own packages (test/fixtures/make-hf-quantized.py): every weight to the
 * bit, and the log-probabilities.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { bias, changedFolder } from "../../../../test/helpers/changed-folder.js";
import { fixture } from "../../../../test/helpers/fixtures.js";
import { type ExpectedLogprobs, expectLogprobs } from "../../../../test/helpers/hf-models.js";
import { tempTree } from "../../../../test/scripts/temp-tree.js";
import { dequantizeRow, rowByteLength } from "../../../formats/dequantize.js";
import { readHfFolder } from "../../../formats/hf/folder.js";
import { openModel } from "../../open-model.js";
import { HfNames } from "../names.js";

/** [rows, cols] of the fixtures' matrices, by the loader's names. @param width of the feed-forward part */
const shapesOf = (width: number): Readonly<Record<string, readonly [number, number]>> => ({
  "blk.0.attn_q.weight": [64, 64],
  "blk.0.attn_k.weight": [32, 64],
  "blk.0.attn_v.weight": [32, 64],
  "blk.0.attn_output.weight": [64, 64],
  "blk.0.ffn_gate.weight": [width, 64],
  "blk.0.ffn_up.weight": [width, 64],
  "blk.0.ffn_down.weight": [64, width],
});

/**
 * What each is converted to. Exact in F32 at least; scales that are the same over whole blocks leave bytes or less,
 * those of 16 bits GGML's blocks.
 */
const FORMATS = [
  ["fp8-block", "F8_E4M3"],
  ["fp8-channel", "F8_E4M3"],
  ["fp8-tensor", "F8_E4M3"],
  ["int8-channel", "Q8_0"],
  ["int8-f32-scales", "I8"],
  ["pack-symmetric", "Q4_0"],
  ["pack-asymmetric", "Q5_0"],
  ["pack-shuffled", "F32"],
  ["gptq", "Q4_0"],
  ["gptq-asymmetric", "Q5_0"],
  ["gptq-shuffled", "F32"],
  ["gptq-8bit", "Q8_0"],
  ["awq", "Q5_0"],
  ["nvfp4-pack", "NVFP4_SCALED"],
  ["nvfp4-modelopt", "NVFP4_SCALED"],
] as const;

/** A block type's kernels may quantise activations to eight bits; a weight read wrongly is off by whole nats. */
const BLOCK_TOLERANCE = 0.5;

describe.each(FORMATS)("%s", (format, type) => {
  const path = fixture(`hf-quantized/${format}`);
  const expected = JSON.parse(readFileSync(join(path, "expected.json"), "utf8")) as ExpectedLogprobs & {
    readonly weights: Readonly<Record<string, string>>;
  };

  it(`becomes ${type}, every weight the same`, () => {
    const folder = readHfFolder(path);
    const names = new HfNames(folder);
    const source = openModel(path).tensors();
    const width = folder.config.number("intermediate_size")!;
    for (const [name, [rows, cols]] of Object.entries(shapesOf(width))) {
      const rowBytes = rowByteLength(type, cols)!;
      const converted = (start: number, numRows: number): Buffer => {
        const matrix = source.matrix({ name, totalRows: rows, cols, start, rows: numRows });
        if (!("convert" in matrix)) throw new Error(`expected ${name} to be converted`);
        expect(matrix.type).toBe(type);
        const bytes = new ArrayBuffer(numRows * rowBytes);
        matrix.convert(bytes);
        return Buffer.from(bytes);
      };
      const whole = converted(0, rows);
      const values = Float32Array.from({ length: rows * cols }, () => 0);
      for (let row = 0; row < rows; row++) {
        values.set(dequantizeRow(type, whole.subarray(row * rowBytes, (row + 1) * rowBytes), cols), row * cols);
      }
      // Plus zero, so that zeros have one sign.
      const bytes = values.map((value) => value + 0);
      const checksum = createHash("sha256").update(bytes).digest("hex");
      expect(checksum, name).toBe(expected.weights[names.of(name, "llama")!]);
      const part = converted(9, 13);
      expect(part.equals(whole.subarray(9 * rowBytes, 22 * rowBytes)), `${name}, rows 9 to 21`).toBe(true);
    }
  });

  it("gives the dequantised model's log-probabilities", async () => {
    await expectLogprobs(path, expected, type === "F32" ? undefined : BLOCK_TOLERANCE);
  });
});

it("scales of inputs, keys and values change nothing", async () => {
  const source = fixture("hf-quantized/fp8-tensor");
  const attention = "model.layers.0.self_attn";
  const folder = changedFolder(source, join(tempTree({}), "folder"), {
    tensors: (stored) => ({
      ...stored,
      [`${attention}.o_proj.input_scale`]: bias(1, 3),
      [`${attention}.q_proj.activation_scale`]: bias(1, 3),
      [`${attention}.k_proj.k_scale`]: bias(1, 3),
    }),
  });
  const expected = JSON.parse(readFileSync(join(source, "expected.json"), "utf8")) as ExpectedLogprobs;
  await expectLogprobs(folder, expected, BLOCK_TOLERANCE);
});
