/** Adapters merged here, compared with peft's own merge (test/fixtures/make-lora.py), and unusable adapters. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { encodeSafetensors } from "../../../test/helpers/safetensors-writer.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { encodeValues } from "../../formats/files/plain-values.js";
import { TOOL_TEMPLATE_NAME } from "../../formats/hf/folder.js";
import { readHeader } from "../../formats/safetensors/header.js";
import { readSafetensors } from "../../formats/safetensors/read.js";
import type { Dtype, SafetensorsTensor } from "../../formats/safetensors/types.js";
import { openModel } from "../../model/open-model.js";
import { mergeAdapter } from "./merge-adapter.js";

let place: string;
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), "millrace-lora-"));
});
afterEach(() => rmSync(place, { recursive: true }));
const at = (...names: string[]): string => join(place, ...names);

const merge = (base: string, adapter: string) =>
  mergeAdapter({ base: fixture(`hf/${base}`), adapter, out: at("merged") }, () => {});

function bytesOf({ byteOffset, byteLength }: SafetensorsTensor, path: string): Buffer {
  return readFileSync(path).subarray(byteOffset, byteOffset + byteLength);
}
const valuesOf = (tensor: SafetensorsTensor, path: string): Float32Array =>
  dequantizeRow(
    tensor.dtype as "F32",
    bytesOf(tensor, path),
    tensor.shape.reduce((product, size) => product * size, 1),
  );

describe.each([
  ["plain", "qwen3", { numMatrices: 14, rank: 2, numWhole: 0 }],
  ["patterns", "llama", { numMatrices: 4, rank: 3, numWhole: 1 }],
])("the adapter %s of %s", (name, base, facts) => {
  it("gives the tensors of peft's merge, and the others are the base's", async () => {
    const merged = await merge(base, fixture(`lora/${name}`));
    expect(merged).toEqual({ path: at("merged"), ...facts });
    const expectedPath = fixture(`lora/${name}/merged.safetensors`);
    const expected = new Map(readHeader(expectedPath, 0).tensors.map((tensor) => [tensor.name, tensor]));
    const before = readSafetensors(fixture(`hf/${base}`));
    const after = readSafetensors(at("merged"));
    expect([...after.tensors.keys()].sort()).toEqual([...before.tensors.keys()].sort());
    let numChanged = 0;
    for (const tensor of after.tensors.values()) {
      const own = before.tensors.get(tensor.name)!;
      expect([tensor.dtype, tensor.shape]).toEqual([own.dtype, own.shape]);
      const golden = expected.get(tensor.name);
      if (golden === undefined) {
        expect(bytesOf(tensor, at("merged/model.safetensors"))).toEqual(bytesOf(own, before.shards[own.shard]!.path));
        continue;
      }
      numChanged++;
      const [got, wanted] = [valuesOf(tensor, at("merged/model.safetensors")), valuesOf(golden, expectedPath)];
      // peft sums in f32 and we in f64, so a bfloat16 may be rounded to its neighbour.
      const far = got.findIndex((value, i) => Math.abs(value - wanted[i]!) > 2 ** -7 * Math.abs(wanted[i]!) + 1e-6);
      expect(far, tensor.name).toBe(-1);
      const equal = got.filter((value, i) => value === wanted[i]).length;
      expect(equal / got.length, tensor.name).toBeGreaterThan(0.99);
    }
    expect(numChanged).toBe(expected.size);
    expect({ ...openModel(at("merged")).config, name: base }).toEqual(openModel(fixture(`hf/${base}`)).config);
  });
});

it("keeps the base's template for tools, which is in a folder of its own", async () => {
  cpSync(fixture("hf/qwen3"), at("base"), { recursive: true });
  mkdirSync(dirname(at("base", TOOL_TEMPLATE_NAME)));
  writeFileSync(at("base", TOOL_TEMPLATE_NAME), "{{ tools }}");
  await mergeAdapter({ base: at("base"), adapter: fixture("lora/plain"), out: at("merged") }, () => {});
  expect(readFileSync(at("merged", TOOL_TEMPLATE_NAME), "utf8")).toBe("{{ tools }}");
});

/** An adapter for one matrix of the fixture qwen3, whose q_proj is [96, 32]. */
function writeAdapter(
  settings: Readonly<Record<string, unknown>>,
  tensors: Readonly<
    Record<string, { readonly shape: readonly number[]; readonly value?: number; readonly dtype?: Dtype }>
  >,
): string {
  const folder = at("adapter");
  cpSync(fixture("lora/plain"), folder, { recursive: true });
  const config = JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...config, ...settings }));
  const stored = Object.entries(tensors).map(([name, { shape, value = 0, dtype = "F32" }]) => {
    const count = shape.reduce((product, size) => product * size, 1);
    const data = dtype === "F32" ? { data: encodeValues("F32", new Float32Array(count).fill(value)) } : {};
    return [`base_model.model.${name}`, { dtype, shape, ...data }] as const;
  });
  writeFileSync(join(folder, "adapter_model.safetensors"), encodeSafetensors(Object.fromEntries(stored)));
  return folder;
}

const Q = "model.layers.0.self_attn.q_proj";
const pair = (rank: number, a = 0.1, b = 0.1) => ({
  [`${Q}.lora_A.weight`]: { shape: [rank, 32], value: a },
  [`${Q}.lora_B.weight`]: { shape: [96, rank], value: b },
});

describe("an adapter that is refused", () => {
  it.each<[string, Readonly<Record<string, unknown>>, Parameters<typeof writeAdapter>[1], string, RegExp]>([
    [
      "another rank than its settings say",
      { r: 4 },
      pair(2),
      "model_tensor",
      /lora_A.weight of shape \[4,32\], got \[2,32\]/,
    ],
    [
      "a factor of another width",
      {},
      { ...pair(2), [`${Q}.lora_A.weight`]: { shape: [2, 33] } },
      "model_tensor",
      /\[2,33\]/,
    ],
    ["one factor alone", {}, { [`${Q}.lora_A.weight`]: { shape: [2, 32] } }, "model_tensor", /got lora_A alone/],
    [
      "a matrix that the base lacks",
      {},
      { "model.layers.9.mlp.up_proj.lora_A.weight": { shape: [2, 32] } },
      "model_tensor",
      /layers\.9/,
    ],
    [
      "a vector of the base as a matrix",
      {},
      { "model.norm.lora_A.weight": { shape: [2, 32] }, "model.norm.lora_B.weight": { shape: [32, 2] } },
      "model_tensor",
      /a matrix model.norm.weight/,
    ],
    ["a huge rank", { r: 1e9 }, pair(2), "model_config", /r to be a whole number up to 1024/],
    ["a rank of 0", { r: 0 }, pair(2), "model_config", /above 0, got 0/],
    ["half a rank", { r: 1.5 }, pair(2), "model_config", /whole number/],
    ["no scale", { lora_alpha: undefined }, pair(2), "model_config", /lora_alpha to be a number above 0/],
    ["a value that is no number", {}, pair(2, Number.NaN), "model_tensor", /finite values in .*lora_A/],
    ["a change beyond the type", { lora_alpha: 1e38 }, pair(2, 1e30, 1e30), "model_tensor", /finite in BF16/],
    [
      "integers",
      {},
      { ...pair(2), [`${Q}.lora_A.weight`]: { shape: [2, 32], dtype: "I32" } },
      "tensor_type_unsupported",
      /I32/,
    ],
    ["DoRA", { use_dora: true }, pair(2), "model_config", /use_dora to be absent or false/],
    ["PiSSA", { init_lora_weights: "pissa" }, pair(2), "model_config", /init_lora_weights/],
    ["prompt tuning", { peft_type: "PROMPT_TUNING" }, pair(2), "model_config", /LORA, got "PROMPT_TUNING"/],
    ["an expression as a pattern", { rank_pattern: { "(a+)+$": 2 } }, pair(2), "model_config", /names of modules/],
    [
      "a text as rank",
      { rank_pattern: { q_proj: "2" } },
      pair(2),
      "model_config",
      /rank_pattern.q_proj to be a number/,
    ],
    [
      "shared embeddings",
      {},
      { "model.embed_tokens.weight": { shape: [288, 32] } },
      "model_config",
      /leaves model.embed_tokens.weight alone/,
    ],
    [
      "a whole tensor of another shape",
      {},
      { "model.norm.weight": { shape: [33] } },
      "model_tensor",
      /\[32\], got \[33\]/,
    ],
    ["nothing", {}, {}, "model_tensor", /expected tensors in/],
  ])("has %s", async (_, settings, tensors, code, message) => {
    const adapter = writeAdapter(settings, tensors);
    await expect(merge("qwen3", adapter)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
    expect(existsSync(at("merged"))).toBe(false);
  });

  it("is a program of Python", async () => {
    const adapter = writeAdapter({}, pair(2));
    rmSync(join(adapter, "adapter_model.safetensors"));
    writeFileSync(join(adapter, "adapter_model.bin"), "");
    await expect(merge("qwen3", adapter)).rejects.toMatchObject({ code: "file_unreadable" });
  });

  it("has a base that is no folder of safetensors", async () => {
    const options = { base: fixture("models/stories260k.gguf"), adapter: fixture("lora/plain"), out: at("merged") };
    await expect(mergeAdapter(options, () => {})).rejects.toMatchObject({ code: "invalid_option" });
  });
});
