/** Models that see, of which the language part is computed: Qwen2-VL to 3-VL, GLM-4.1V and wrappers. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { changedFolder } from "../../test/helpers/changed-folder.js";
import { completionsOf, expectClose, weightsOnly } from "../../test/helpers/converted.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { type RandomArchitecture, writeRandomModel } from "../../test/helpers/random-model.js";
import { JsonObject } from "../formats/files/json.js";
import { readGguf } from "../formats/gguf/read.js";
import { arr } from "../formats/gguf/write.js";
import { servableConfig } from "./hf/servable.js";
import { openModel } from "./open-model.js";

const root = mkdtempSync(join(tmpdir(), "millrace-seeing-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);
const refusal = (code: string, message: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe("a file of", () => {
  it.each<[RandomArchitecture, RandomArchitecture]>([
    ["qwen2vl", "qwen2"],
    ["qwen3vl", "qwen3"],
    ["qwen3vlmoe", "qwen3moe"],
  ])("%s answers as its language part does, which a copy is", async (architecture, languagePart) => {
    const [seeing, text, copy] = [place(".gguf"), place(".gguf"), place(".gguf")];
    writeRandomModel(seeing, { architecture, seed: 3 });
    writeRandomModel(text, { architecture: languagePart, seed: 3 });
    const expected = await completionsOf(text);
    expect(await completionsOf(seeing)).toEqual(expected);
    weightsOnly(seeing, copy);
    expect(readGguf(copy).metadata.string("general.architecture")).toBe(languagePart);
    expect(await completionsOf(copy)).toEqual(expected);
  });
});

describe("a file of GLM-4.1V, an architecture that GLM-4 has too,", () => {
  /** Moves the rows of pairs that lie side by side into halves, as llama.cpp's converter does for such models. */
  const halvePairs = (path: string, headDim: number, dim: number) => {
    const bytes = readFileSync(path);
    for (const { name, byteOffset, byteLength, shape } of readGguf(path).tensors.values()) {
      if (!/\.attn_[qk]\.(?:weight|bias)$/.test(name)) continue;
      const rowBytes = byteLength / shape.at(-1)!;
      const from = Buffer.from(bytes.subarray(byteOffset, byteOffset + byteLength));
      for (let row = 0; row < shape.at(-1)!; row++) {
        const within = row % headDim;
        if (within >= dim) continue;
        const to = row - within + (within >> 1) + (within % 2) * (dim / 2);
        from.copy(bytes, byteOffset + to * rowBytes, row * rowBytes, (row + 1) * rowBytes);
      }
    }
    writeFileSync(path, bytes);
  };
  const write = (sections?: readonly number[]) => {
    const path = place(".gguf");
    const metadata = sections === undefined ? {} : { "glm4.rope.dimension_sections": arr("i32", sections) };
    return { path, ...writeRandomModel(path, { architecture: "glm4", seed: 5, metadata }).dimensions };
  };

  it("has the rows of halves where it names the axes of pictures, and is not copied", async () => {
    const [plain, seeing] = [write(), write([4, 2, 2, 0])];
    halvePairs(seeing.path, seeing.headDim, seeing.headDim / 2);
    expectClose(await completionsOf(seeing.path), await completionsOf(plain.path));
    expect(openModel(write([0, 0, 0, 0]).path).config.isNeoxRope).toBe(false);
    const refused = refusal(
      "architecture_unsupported",
      /glm4 whose rotated pairs lie side by side, got pairs of halves/,
    );
    expect(() => weightsOnly(seeing.path, place())).toThrow(refused);
    expect(() => weightsOnly(seeing.path, place(".gguf"))).toThrow(/expected a rope over all 32 values of a head/);
  });
});

it("a wrapper around a language model that is not computed is refused for that", () => {
  const json = { model_type: "internvl", text_config: { model_type: "mamba" } };
  expect(() => servableConfig(new JsonObject(json, "config.json", ""), "m")).toThrow(
    refusal("architecture_unsupported", /text_config.model_type to be one of .*, got mamba/),
  );
});

describe("a config.json of", () => {
  const SIZES = { hidden_size: 4096, num_hidden_layers: 2 };
  const modelOf = (model_type: string, changes: object = {}) => {
    const json = { ...SIZES, model_type, ...changes };
    return servableConfig(new JsonObject(json, "config.json", ""), "m", { numEmbeddings: 1000, hasOutput: true }).model;
  };

  it("each kind has its class's defaults", () => {
    const [base, dim] = [1e6, 64];
    expect(modelOf("qwen2_vl")).toMatchObject({ architecture: "qwen2", rmsEps: 1e-5, ropes: [{ base, dim }] });
    expect(modelOf("qwen2_vl")).toMatchObject({
      contextLength: 32_768,
      layers: Array(2).fill({ mixer: { numHeads: 64, numKvHeads: 8, window: 0 }, feedForward: { width: 29_568 } }),
    });
    const dense = { mixer: { numHeads: 32, numKvHeads: 32, headDim: 128 }, feedForward: { width: 22_016 } };
    expect(modelOf("qwen3_vl")).toMatchObject({ architecture: "qwen3", layers: [dense, dense] });
    const experts = { kind: "experts", count: 60, active: 4, width: 1408, sharedWidth: 0 };
    const sparse = { mixer: { numHeads: 16, numKvHeads: 16, headDim: 256 }, feedForward: experts };
    expect(modelOf("qwen3_vl_moe")).toMatchObject({
      architecture: "qwen3moe",
      contextLength: 128_000,
      ropes: [{ base: 500_000 }],
      routing: { normalises: true },
      layers: [sparse, sparse],
    });
  });

  it("LLaVA has its language model's class's sizes, of which the published files state none", () => {
    const wrapped = (model_type: string, text_config: object) => {
      const json = { model_type, text_config: { rms_norm_eps: 1e-5, max_position_embeddings: 4096, ...text_config } };
      return servableConfig(new JsonObject(json, "config.json", ""), "m", { numEmbeddings: 32_064, hasOutput: true });
    };
    const sizesOf = (numKvHeads: number, ffWidth: number) => {
      const mixer = { numHeads: 32, numKvHeads, headDim: 128, window: 0 };
      return { model: { width: 4096, layers: Array(32).fill({ mixer, feedForward: { width: ffWidth } }) } };
    };
    expect(wrapped("llava", { model_type: "llama" })).toMatchObject(sizesOf(32, 11_008));
    const mistral = { model_type: "mistral", num_key_value_heads: 8, sliding_window: null };
    expect(wrapped("llava_next", mistral)).toMatchObject(sizesOf(8, 14_336));
  });

  it("Qwen2-VL may have windows behind its 80th layer, and a rope for longer texts", () => {
    const windows = (changes: object) =>
      modelOf("qwen2_5_vl", { use_sliding_window: true, ...changes }).layers.map(
        ({ mixer }) => mixer.kind === "attention" && mixer.window,
      );
    expect(windows({})).toEqual([0, 0]);
    expect(windows({ max_window_layers: 1 })).toEqual([0, 4096]);
    const stretched = {
      type: "yarn",
      mrope_section: [16, 24, 24],
      factor: 4,
      original_max_position_embeddings: 32_768,
    };
    const { ropes, contextLength } = modelOf("qwen2_vl", { rope_scaling: stretched });
    expect([ropes[0]!.scaling, contextLength]).toEqual(["yarn", 131_072]);
  });

  it("experts that are weighed otherwise, and tokens that see the whole text, are refused", () => {
    const refused = (changes: object, message: RegExp) =>
      expect(() => modelOf("qwen3_vl_moe", changes)).toThrow(refusal("architecture_unsupported", message));
    refused({ norm_topk_prob: false }, /norm_topk_prob to be true, got false/);
    refused({ use_bidirectional_attention: true }, /expected no .*use_bidirectional_attention/);
  });
});

describe("experts of Qwen3-VL", () => {
  /** [experts, a, b] as [experts, b, a]. */
  const transposed = (data: Buffer, [count = 0, rows = 0, cols = 0]: readonly number[]): Buffer => {
    const from = new Uint16Array(Uint8Array.from(data).buffer);
    const out = new Uint16Array(from.length);
    const size = rows * cols;
    for (let i = 0; i < count * size; i++) {
      const at = i % size;
      out[i - at + (at % cols) * rows + Math.floor(at / cols)] = from[i]!;
    }
    return Buffer.from(out.buffer);
  };

  it("may lie as transformers 5 writes them, and are refused in a shape of neither kind", async () => {
    const published = fixture("hf/qwen3_vl_moe");
    const withExperts = (change: (shape: readonly number[]) => readonly number[]) =>
      changedFolder(published, place(), {
        tensors: (all) =>
          Object.fromEntries(
            Object.entries(all).map(([name, tensor]) => {
              if (!name.includes(".experts.")) return [name, tensor];
              const { shape, data } = tensor;
              return [name, { ...tensor, shape: [...change(shape)], data: transposed(data as Buffer, shape) }];
            }),
          ),
      });
    const usual = withExperts(([count, rows, cols]) => [count!, cols!, rows!]);
    expect(await completionsOf(usual)).toEqual(await completionsOf(published));
    const wrong = withExperts(([count, rows, cols]) => [count!, 2 * cols!, rows! / 2]);
    await expect(completionsOf(wrong)).rejects.toThrow(
      refusal("model_tensor", /gate_up_proj as .* \[6,32,40\], got BF16 \[6,80,16\]/),
    );
    expect(openModel(published).config.layers[0]!.feedForward).toMatchObject({ count: 6, active: 3, width: 20 });
  });
});
