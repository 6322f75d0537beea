import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readGguf } from "../../src/formats/gguf/read.js";
import { DECODERS } from "../../src/model/description/architectures.js";
import { writeRandomModel } from "./random-model.js";
import { encodeValues, halfBits } from "./tensor-bytes.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-random-"));
afterAll(() => rmSync(folder, { recursive: true }));

const RANDOM_ARCHITECTURES = DECODERS.filter((name) => name !== "mistral");

describe("writeRandomModel", () => {
  it.each(RANDOM_ARCHITECTURES)("%s reads back, the same for the same seed", (architecture) => {
    const [first, again, other] = [1, 1, 2].map((seed, index) => {
      const path = join(folder, `${architecture}${index}.gguf`);
      writeRandomModel(path, { architecture, seed });
      return readFileSync(path);
    });
    expect(first?.equals(again!)).toBe(true);
    expect(first?.equals(other!)).toBe(false);
    const file = readGguf(join(folder, `${architecture}0.gguf`));
    expect(file.metadata.string("general.architecture")).toBe(architecture);
    expect(file.metadata.strings("tokenizer.ggml.tokens")).toHaveLength(384);
    expect(new Set(file.metadata.strings("tokenizer.ggml.tokens")).size).toBe(384);
    expect(file.tensors.get("token_embd.weight")?.shape).toEqual([128, 384]);
    const numLayers = file.metadata.number(`${architecture}.block_count`) ?? 0;
    const hasExperts = (file.metadata.number(`${architecture}.expert_count`) ?? 0) > 0;
    const down = hasExperts ? "ffn_down_exps" : "ffn_down";
    expect(file.tensors.has(`blk.${numLayers - 1}.${down}.weight`)).toBe(true);
  });

  it("merges only tokens that exist", () => {
    const path = join(folder, "merges.gguf");
    writeRandomModel(path, { architecture: "llama", seed: 1, vocab: 300, width: 64, type: "Q4_0" });
    const { metadata } = readGguf(path);
    const tokens = metadata.strings("tokenizer.ggml.tokens") ?? [];
    for (const merge of metadata.strings("tokenizer.ggml.merges") ?? []) {
      const [left = "", right = ""] = merge.split(" ");
      expect(tokens).toEqual(expect.arrayContaining([left, right, left + right]));
    }
  });

  it("gives weights the stated deviation", () => {
    const path = join(folder, "deviation.gguf");
    writeRandomModel(path, { architecture: "llama", seed: 3 });
    const { byteOffset, byteLength } = readGguf(path).tensors.get("token_embd.weight")!;
    const weights = new Float32Array(new Uint8Array(readFileSync(path)).buffer, byteOffset, byteLength / 4);
    const mean = weights.reduce((sum, weight) => sum + weight, 0) / weights.length;
    const variance = weights.reduce((sum, weight) => sum + (weight - mean) ** 2, 0) / weights.length;
    expect(Math.abs(mean)).toBeLessThan(0.003);
    expect(Math.sqrt(variance) * Math.sqrt(128)).toBeCloseTo(1.5, 1);
  });
});

describe("encodeValues", () => {
  it("rounds halves to nearest, ties to even", () => {
    const cases = [
      [0, 0],
      [-0, 0x8000],
      [1, 0x3c00],
      [-2, 0xc000],
      [65_504, 0x7bff],
      [65_520, 0x7c00],
      [1 + 2 ** -11, 0x3c00],
      [1 + 3 * 2 ** -11, 0x3c02],
      [2 ** -24, 1],
      [2 ** -25, 0],
      [3 * 2 ** -25, 2],
      [Number.POSITIVE_INFINITY, 0x7c00],
      [Number.NaN, 0x7e00],
    ] as const;
    for (const [value, bits] of cases) expect(halfBits(value), String(value)).toBe(bits);
  });

  it("quantises within half a step", () => {
    const values = Float32Array.from({ length: 32 }, (_, index) => Math.sin(index));
    const q8 = new DataView(encodeValues("Q8_0", values).buffer);
    const q4 = new DataView(encodeValues("Q4_0", values).buffer);
    const extreme = values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
    const [step8, step4] = [Math.abs(extreme) / 127, extreme / -8];
    for (const [index, value] of values.entries()) {
      expect(Math.abs(q8.getInt8(2 + index) * step8 - value)).toBeLessThan(step8 * 0.51);
      const byte = q4.getUint8(2 + (index % 16));
      const quantised = (index < 16 ? byte & 15 : byte >> 4) - 8;
      // The end of the range opposite to the extreme loses one step: -8 to 7 is not symmetric.
      expect(Math.abs(quantised * step4 - value)).toBeLessThan(Math.abs(step4) * 1.01);
    }
  });
});
