/**
 * Mixtures of experts in GGUF files: the layouts there are have the same values, and a file that is not what its header
 * says is refused.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { completionsOf } from "../../../test/helpers/converted.js";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import { bool, f32, u32, type WritableValue } from "../../formats/gguf/write.js";
import { attentionMixers } from "../description/servable.js";
import { openModel } from "../open-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-experts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let numFiles = 0;
function written(options: Partial<RandomModelOptions> = {}): string {
  const path = join(folder, `${numFiles++}.gguf`);
  writeRandomModel(path, { architecture: "qwen3moe", seed: 1, ...options });
  return path;
}

const withKey = (key: string, value: WritableValue) => written({ metadata: { [`qwen3moe.${key}`]: value } });

it.each([
  "apart",
  "fused",
] as const)("experts that are stored %s compute what stacked ones do", async (expertLayout) => {
  const options = { type: "Q8_0", seed: 2 } as const;
  const wanted = await completionsOf(written(options));
  expect(await completionsOf(written({ ...options, expertLayout }))).toEqual(wanted);
});

describe("the header", () => {
  it("says how the weights of chosen experts are scaled", () => {
    const isNormalising = (path: string) => openModel(path).config.routing.normalises;
    expect(isNormalising(written())).toBe(true);
    expect(isNormalising(withKey("expert_weights_norm", bool(false)))).toBe(false);
    const metadata = { "qwen3moe.expert_weights_norm": bool(false), "qwen3moe.expert_gating_func": u32(3) };
    expect(isNormalising(written({ metadata }))).toBe(true);
  });

  it.each([
    ["expert_gating_func", u32(2)],
    ["expert_weights_scale", f32(2.5)],
    ["expert_group_count", u32(4)],
    ["expert_shared_count", u32(1)],
    ["expert_shared_feed_forward_length", u32(64)],
  ] as const)("with %s that is not computed is refused", (key, value) => {
    expect(() => openModel(withKey(key, value))).toThrow(expect.objectContaining({ code: "architecture_unsupported" }));
  });

  it.each([
    ["expert_used_count", u32(9), /expert_used_count to be an integer in \[1, 8\], got 9/],
    ["expert_used_count", u32(0), /expert_used_count to be an integer in \[1, 8\], got 0/],
    ["expert_count", u32(2 ** 31), /expert_count to be an integer in \[1, 16384\]/],
    ["expert_feed_forward_length", u32(0), /expert_feed_forward_length to be an integer/],
  ] as const)("with %s out of range is refused (%#)", (key, value, message) => {
    const refusal = expect.objectContaining({ code: "gguf_metadata", message: expect.stringMatching(message) });
    expect(() => openModel(withKey(key, value))).toThrow(refusal);
  });

  it("of glm4moe says how its experts are chosen, and which blocks are no layers", () => {
    const glm = (metadata: RandomModelOptions["metadata"] = {}) =>
      openModel(written({ architecture: "glm4moe", layers: 3, metadata })).config;
    const { layers, routing, ropes } = glm();
    expect(layers.map(({ feedForward }) => feedForward)).toMatchObject([
      { kind: "dense" },
      { kind: "experts", count: 8, active: 3, sharedWidth: 128 },
      { kind: "experts" },
    ]);
    expect(ropes[0]!.dim).toBe(16);
    const wanted = { scoring: "sigmoid", normalises: true, numGroups: 4, numUsedGroups: 2, hasBias: true };
    expect(routing).toEqual({ ...wanted, scale: Math.fround(1.7) });
    expect(glm({ "glm4moe.nextn_predict_layers": u32(1) }).layers).toHaveLength(2);
    const one = { "glm4moe.expert_group_count": u32(0), "glm4moe.expert_group_used_count": u32(0) };
    expect(glm(one).routing).toMatchObject({ numGroups: 1, numUsedGroups: 1 });
    const plain = { "glm4moe.expert_weights_scale": f32(0), "glm4moe.expert_gating_func": u32(0) };
    expect(glm(plain).routing).toMatchObject({ scoring: "sigmoid", scale: 1 });
    const refused = (key: string, value: WritableValue) => expect(() => glm({ [`glm4moe.${key}`]: value }));
    refused("expert_gating_func", u32(1)).toThrow(/expert_gating_func to be 0 or 2, got 1/);
    refused("expert_group_count", u32(3)).toThrow(/8 experts in whole groups/);
    refused("expert_group_count", u32(8)).toThrow(/8 experts in whole groups/);
    refused("expert_group_used_count", u32(1)).toThrow(/with 3 in those that a token uses, got 1 of 4 groups/);
    refused("expert_group_used_count", u32(5)).toThrow(/expert_group_used_count to be an integer in \[1, 4\]/);
    refused("nextn_predict_layers", u32(3)).toThrow(/nextn_predict_layers to be an integer in \[1, 2\]/);
    refused("expert_weights_scale", f32(-1)).toThrow(/expert_weights_scale to be a positive number/);
  });

  it.each([
    "qwen2moe",
    "olmoe",
    "deepseek",
  ] as const)("of %s weighs experts among all of them without saying so, as llama.cpp does", (architecture) => {
    const normalises = (metadata: RandomModelOptions["metadata"] = {}) =>
      openModel(written({ architecture, metadata })).config.routing.normalises;
    expect(normalises()).toBe(false);
    expect(normalises({ [`${architecture}.expert_weights_norm`]: bool(true) })).toBe(true);
  });

  it("of lfm2moe weighs experts relative to one another without saying so, as llama.cpp does", () => {
    const lfm2 = (metadata: RandomModelOptions["metadata"] = {}) =>
      openModel(written({ architecture: "lfm2moe", metadata })).config;
    const { layers, routing } = lfm2();
    expect(routing).toMatchObject({ scoring: "sigmoid", normalises: true, scale: 1, hasBias: true });
    expect(layers.map(({ feedForward }) => feedForward.kind)).toEqual(["dense", "experts", "experts", "experts"]);
    expect(lfm2({ "lfm2moe.expert_weights_norm": bool(false) }).routing.normalises).toBe(false);
    const refused = (key: string, value: WritableValue) => expect(() => lfm2({ [`lfm2moe.${key}`]: value }));
    refused("attention.sliding_window", u32(64)).toThrow(/expected no lfm2moe.attention.sliding_window, got 64/);
    refused("attention.causal", bool(false)).toThrow(/expected lfm2moe.attention.causal, got false/);
    refused("shortconv.l_cache", u32(65)).toThrow(/shortconv.l_cache to be an integer in \[1, 64\], got 65/);
  });

  it("with experts beyond counting is refused before anything is made of them", () => {
    const metadata = { "qwen3moe.expert_count": u32(16_384), "qwen3moe.block_count": u32(1000) };
    expect(() => openModel(written({ metadata }))).toThrow(/at most 131072 experts in all layers, got 16384000/);
  });
});

describe("tensors", () => {
  it.each([
    ["expert_count", u32(7), /ffn_gate_inp\.weight of shape \[128,7\], got \[128,8\]/],
    ["expert_feed_forward_length", u32(32), /ffn_gate_exps\.weight of shape \[128,32,8\], got \[128,64,8\]/],
  ] as const)("of other sizes than %s says are refused", async (key, value, message) => {
    await expect(completionsOf(withKey(key, value))).rejects.toMatchObject({
      code: "gguf_tensor",
      message: expect.stringMatching(message),
    });
  });

  it("of gpt-oss are biases of every expert, and sinks of every head", async () => {
    const gptOss = (metadata: RandomModelOptions["metadata"] = {}, ...renamed: readonly [string, string] | []) => {
      const path = written({ architecture: "gpt-oss", metadata });
      const [from, to] = renamed;
      const bytes = readFileSync(path);
      if (from !== undefined && to !== undefined) bytes.write(to, bytes.indexOf(from));
      writeFileSync(path, bytes);
      return path;
    };
    const { config } = openModel(gptOss());
    expect(config).toMatchObject({ hasSinks: true, activation: "clampedSwiglu", routing: { normalises: true } });
    expect(attentionMixers(config).map((mixer) => mixer.window)).toEqual([24, 0]);
    expect(config.ropes[0]!.roundsYarnRange).toBe(false);
    const unsaid = gptOss({}, "attention.sliding_window", "attention.sliding_wondow");
    expect(attentionMixers(openModel(unsaid).config).map((mixer) => mixer.window)).toEqual([128, 0]);
    const refused = (message: RegExp) => ({ code: "gguf_tensor", message: expect.stringMatching(message) });
    await expect(completionsOf(gptOss({}, "blk.1.attn_sinks", "mm.x1.attn_sinks"))).rejects.toMatchObject(
      refused(/blk\.1\.attn_sinks\.weight of shape \[4\], got none/),
    );
    const fewer = { "gpt-oss.attention.head_count": u32(2), "gpt-oss.attention.key_length": u32(64) };
    await expect(completionsOf(gptOss({ ...fewer, "gpt-oss.attention.head_count_kv": u32(1) }))).rejects.toMatchObject(
      refused(/blk\.0\.attn_sinks\.weight of shape \[2\], got \[4\]/),
    );
    // The bias of another matrix under its name: [128, 8] in place of [64, 8].
    const swapped = gptOss({}, "blk.0.ffn_gate_exps.bias", "mm.x0.ffn_gate_exps.bias");
    const bytes = readFileSync(swapped);
    bytes.write("blk.0.ffn_gate_exps.bias", bytes.indexOf("blk.0.ffn_down_exps.bias"));
    writeFileSync(swapped, bytes);
    await expect(completionsOf(swapped)).rejects.toMatchObject(
      refused(/blk\.0\.ffn_gate_exps\.bias of shape \[64,8\], got \[128,8\]/),
    );
  });

  it("that are missing are refused by name", async () => {
    const metadata = { "llama.expert_count": u32(4), "llama.expert_used_count": u32(2) };
    await expect(completionsOf(written({ architecture: "llama", metadata }))).rejects.toMatchObject({
      code: "gguf_tensor",
      message: expect.stringMatching(/blk\.0\.ffn_/),
    });
  });
});
