import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writeEncoderGguf } from "../../test/helpers/encoder-gguf.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { readGguf } from "../formats/gguf/read.js";
import { arr, str, u32, writeGguf } from "../formats/gguf/write.js";
import { summarizeLayers, totalParameters } from "../model/description/sizes.js";
import { KNOWN_MODELS } from "./data/models.js";
import { readPlannedModel } from "./read-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-read-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each([
  "llama",
  "qwen2",
  "qwen3",
  "gemma3",
  "qwen35",
  "lfm2",
] as const)("a GGUF file of %s: dimensions, bytes and parameters", async (architecture) => {
  const path = join(folder, `${architecture}.gguf`);
  const { dimensions } = writeRandomModel(path, { architecture, seed: 1, type: "Q8_0" });
  const model = await readPlannedModel(path);
  const { layers, width, heads, kvHeads, headDim, ff, vocab } = dimensions;
  expect(summarizeLayers(model)).toMatchObject({
    numLayers: layers,
    numHeads: heads,
    numKvHeads: kvHeads,
    headDim,
    ffWidth: ff,
  });
  expect(model).toMatchObject({
    width,
    vocabSize: vocab,
    stored: { label: "Q8_0" },
    isTied: ["qwen3", "gemma3", "lfm2"].includes(architecture),
  });
  const tensors = [...readGguf(path).tensors.values()];
  expect(model.stored!.weightBytes).toBe(tensors.reduce((sum, { byteLength }) => sum + byteLength, 0));
  // The count leaves out norms and biases.
  const numValues = tensors.reduce((sum, tensor) => sum + tensor.shape.reduce((product, dim) => product * dim, 1), 0);
  expect(totalParameters(model) / numValues).toBeGreaterThan(0.98);
  expect(totalParameters(model) / numValues).toBeLessThanOrEqual(1);
});

test("weights of types with codebooks count as they are packed", async () => {
  const path = join(folder, "grids.gguf");
  writeRandomModel(path, { architecture: "llama", width: 256, ff: 512, seed: 1, type: "IQ2_XXS" });
  const tensors = [...readGguf(path).tensors.values()];
  const inMemory = tensors.map(({ type, byteLength }) => (type === "IQ2_XXS" ? (byteLength / 66) * 102 : byteLength));
  const { stored } = await readPlannedModel(path);
  expect(stored!.label).toBe("IQ2_XXS");
  expect(stored!.weightBytes).toBe(inMemory.reduce((sum, numBytes) => sum + numBytes, 0));
});

test("an encoder is refused, as a folder and as a file", async () => {
  const bert = fixture("hf-encoders/bert_rank");
  const path = join(folder, "bert.gguf");
  writeEncoderGguf(bert, path);
  for (const spec of [bert, path]) {
    await expect(readPlannedModel(spec)).rejects.toMatchObject({
      code: "architecture_unsupported",
      message: "expected a model that generates text, got an encoder (bert)",
    });
  }
});

test("a GGUF file that lists a number per layer, with none where a layer keeps nothing", async () => {
  const numbers = {
    block_count: 3,
    embedding_length: 64,
    context_length: 512,
    feed_forward_length: 96,
    vocab_size: 99,
  };
  const metadata = {
    "general.architecture": str("mixed"),
    ...Object.fromEntries(Object.entries(numbers).map(([key, value]) => [`mixed.${key}`, u32(value)])),
    "mixed.attention.head_count": arr("u32", [4, 4, 4]),
  };
  const path = join(folder, "mixed.gguf");
  const read = (kvHeads: readonly number[]) => {
    writeGguf(path, { metadata: { ...metadata, "mixed.attention.head_count_kv": arr("u32", kvHeads) }, tensors: [] });
    return readPlannedModel(path);
  };
  const { layers } = await read([0, 2, 0]);
  expect(layers.map(({ mixer }) => mixer)).toMatchObject([0, 2, 0].map((numKvHeads) => ({ numHeads: 4, numKvHeads })));
  await expect(read([0, 0, 0])).rejects.toThrow("mixed.attention.head_count_kv to be above 0 in some layer");
  await expect(read([2, 2])).rejects.toThrow("mixed.attention.head_count_kv to be a number or a list of 3, got 2");
});

const LLAMA_70B = {
  model_type: "llama",
  num_hidden_layers: 80,
  hidden_size: 8192,
  num_attention_heads: 64,
  num_key_value_heads: 8,
  intermediate_size: 28_672,
  vocab_size: 128_256,
  max_position_embeddings: 131_072,
  tie_word_embeddings: false,
};

/** A hub with this config and no other file. */
const hubWith = (config: object): typeof fetch =>
  (async (url: string | URL | Request) =>
    String(url) === "http://hub.test/org/some-model/resolve/main/config.json"
      ? new Response(JSON.stringify(config))
      : new Response("", { status: 404 })) as typeof fetch;

test("a hub's repository by its config alone", async () => {
  const model = await readPlannedModel("hf:org/some-model", { endpoint: "http://hub.test", fetch: hubWith(LLAMA_70B) });
  const known = KNOWN_MODELS.find(({ name }) => name === "llama-3.3-70b")!;
  expect(model).toMatchObject({ name: "some-model", location: "org/some-model" });
  expect(summarizeLayers(model)).toMatchObject({ numLayers: 80, headDim: 128 });
  expect(totalParameters(model) / known.publishedParameters).toBeCloseTo(1, 2);
});

test("configs of mixtures, of models that see, and of weights that are FP8 already", async () => {
  const read = (config: object) =>
    readPlannedModel("hf:org/some-model", { endpoint: "http://hub.test", fetch: hubWith(config) });
  const mixture = { ...LLAMA_70B, num_experts: 128, num_experts_per_tok: 8, moe_intermediate_size: 768 };
  expect((await read(mixture)).layers[0]!.feedForward).toMatchObject({ count: 128, active: 8, width: 768 });
  const seeing = {
    model_type: "gemma3",
    text_config: { ...LLAMA_70B, model_type: "gemma3_text", sliding_window: 1024 },
  };
  expect(summarizeLayers(await read(seeing))).toMatchObject({ window: 1024, numWindowLayers: 67 });
  // The numbers of google/gemma-3-4b-it.
  const sparse = { model_type: "gemma3_text", hidden_size: 2560, intermediate_size: 10_240, num_hidden_layers: 34 };
  const gemma = await read({ model_type: "gemma3", text_config: { ...sparse, sliding_window: 1024 } });
  expect(gemma).toMatchObject({ vocabSize: 262_208, contextLength: 131_072, isTied: true });
  const heads = { numHeads: 8, numKvHeads: 4, headDim: 256 };
  expect(summarizeLayers(gemma)).toMatchObject({ ...heads, window: 1024, numWindowLayers: 29 });
  expect((await read({ ...LLAMA_70B, quantization_config: { quant_method: "fp8" } })).native).toBe("fp8");
  await expect(read({ ...LLAMA_70B, quantization_config: { quant_method: "awq" } })).rejects.toThrow(/got awq/);
  await expect(read({ ...LLAMA_70B, hidden_size: 0 })).rejects.toThrow(
    /expected config.json: hidden_size to be an integer in .*, got 0/,
  );
});

test("what the hub does not have, and what it answers badly", async () => {
  const options = { endpoint: "http://hub.test", fetch: hubWith({}) };
  await expect(readPlannedModel("hf:org/other", options)).rejects.toMatchObject({ code: "hub_not_found" });
  const prose = { ...options, fetch: (async () => new Response("<html>")) as typeof fetch };
  await expect(readPlannedModel("hf:org/some-model", prose)).rejects.toMatchObject({ code: "model_config" });
  const down = { ...options, fetch: (() => Promise.reject(new Error("no route"))) as typeof fetch };
  await expect(readPlannedModel("hf:org/some-model", down)).rejects.toMatchObject({ code: "hub_unreachable" });
});

test("the hub's name of a known model needs no hub", async () => {
  const never = (() => Promise.reject(new Error("asked"))) as typeof fetch;
  expect((await readPlannedModel("hf:meta-llama/Llama-3.1-8B-Instruct", { fetch: never })).name).toBe("llama-3.1-8b");
});

test("a folder with config.json and weights", async () => {
  const path = join(folder, "hf");
  mkdirSync(path);
  const config = {
    ...LLAMA_70B,
    num_hidden_layers: 1,
    hidden_size: 64,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    intermediate_size: 128,
    vocab_size: 320,
  };
  writeFileSync(join(path, "config.json"), JSON.stringify(config));
  const header = Buffer.from(
    JSON.stringify({ "model.embed_tokens.weight": { dtype: "BF16", shape: [320, 64], data_offsets: [0, 40_960] } }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(join(path, "model.safetensors"), Buffer.concat([length, header, Buffer.alloc(40_960)]));
  expect(readFileSync(join(path, "model.safetensors")).length).toBe(8 + header.length + 40_960);
  const model = await readPlannedModel(path);
  // Engines may quantise 16-bit weights, so the file does not fix the type.
  expect(model).toMatchObject({ name: "hf", isTied: true });
  expect(summarizeLayers(model)).toMatchObject({ numKvHeads: 2, headDim: 16 });
  expect(model.stored).toBeUndefined();
});

test.each([
  "gptq",
  "awq",
  "pack-symmetric",
])("words of four-bit numbers (%s) are planned as INT4, multiplied as such", async (name) => {
  const model = await readPlannedModel(fixture(`hf-quantized/${name}`));
  expect(model.stored?.label).toBe("INT4");
});
