/**
 * Mixtures of experts in folders: which layers have them, and a folder that is not what its config.json says is
 * refused.
 */

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { completionsOf } from "../../../test/helpers/converted.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { writeFusedFolder } from "../../../test/helpers/fused-experts.js";
import { type ExpectedLogprobs, expectLogprobs } from "../../../test/helpers/hf-models.js";
import { JsonObject } from "../../formats/files/json.js";
import { attentionMixers } from "../description/servable.js";
import { openModel } from "../open-model.js";
import { servableConfig } from "./servable.js";

const root = mkdtempSync(join(tmpdir(), "millrace-hf-experts-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numFolders = 0;
/** A copy of a fixture with other settings, and other bytes in its file of weights where `replaced` says so. */
function changed(
  name: string,
  settings: Readonly<Record<string, unknown>>,
  replaced?: readonly [string, string],
): string {
  const folder = join(root, String(numFolders++));
  cpSync(fixture(`hf/${name}`), folder, { recursive: true });
  const path = join(folder, "config.json");
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), ...settings }));
  if (replaced !== undefined) {
    const weights = join(folder, "model.safetensors");
    writeFileSync(weights, readFileSync(weights, "latin1").replace(...replaced), "latin1");
  }
  return folder;
}

const kindsOf = (folder: string) => openModel(folder).config.layers.map(({ feedForward }) => feedForward.kind);

it("layers have experts where the settings say so", () => {
  const all = { mlp_only_layers: null };
  expect(kindsOf(fixture("hf/qwen3moe"))).toEqual(["experts", "dense", "experts"]);
  expect(kindsOf(changed("qwen3moe", all))).toEqual(["experts", "experts", "experts"]);
  expect(kindsOf(changed("qwen3moe", { ...all, decoder_sparse_step: 2 }))).toEqual(["dense", "experts", "dense"]);
  expect(kindsOf(fixture("hf/mixtral"))).toEqual(["experts", "experts"]);
});

it.each([
  ["qwen3_moe", { count: 128, active: 8, width: 768 }, { numHeads: 32, numKvHeads: 4, window: 0 }, 32_768, 1e-6],
  ["gpt_oss", { count: 128, active: 4, width: 2880 }, { numHeads: 64, numKvHeads: 8, headDim: 64 }, 131_072, 1e-5],
  ["mixtral", { count: 8, active: 2, width: 14_336 }, { numHeads: 32, numKvHeads: 8, window: 0 }, 131_072, 1e-5],
  [
    "qwen2_moe",
    { count: 60, active: 4, width: 1408, sharedWidth: 5632 },
    { numHeads: 16, numKvHeads: 16 },
    32_768,
    1e-6,
  ],
  ["olmoe", { count: 64, active: 8, width: 2048 }, { numHeads: 16, numKvHeads: 16 }, 4096, 1e-5],
  ["granitemoe", { count: 8, active: 2, width: 11_008 }, { numHeads: 32, numKvHeads: 32 }, 2048, 1e-6],
] as const)("a %s that says next to nothing has its class's experts", (model_type, experts, mixer, context, eps) => {
  const json = { model_type, hidden_size: 4096, num_hidden_layers: 2, rope_scaling: { rope_type: "default" } };
  const { model } = servableConfig(new JsonObject(json, "config.json", ""), "m");
  expect(model).toMatchObject({ contextLength: context, rmsEps: eps });
  for (const layer of model.layers) {
    expect(layer).toMatchObject({ feedForward: { kind: "experts", sharedWidth: 0, ...experts }, mixer });
  }
});

it("a glm4_moe that says next to nothing has its class's experts behind a dense layer, and half of each head rotated", () => {
  const json = { model_type: "glm4_moe", hidden_size: 4096, num_hidden_layers: 2, head_dim: 128 };
  const { layers, routing, ropes } = servableConfig(new JsonObject(json, "config.json", ""), "m").model;
  expect(layers.map(({ feedForward }) => feedForward)).toEqual([
    { kind: "dense", width: 10_944 },
    { kind: "experts", count: 128, active: 8, width: 1408, sharedWidth: 1408 },
  ]);
  expect(routing).toMatchObject({ scoring: "sigmoid", normalises: true, scale: 1, numGroups: 1, numUsedGroups: 1 });
  expect(ropes[0]!.dim).toBe(64);
});

it.each([
  ["qwen2_moe", { use_sliding_window: true }, /expected no .*use_sliding_window, got true/],
  ["olmoe", { clip_qkv: 8 }, /expected no .*clip_qkv, got 8/],
  ["deepseek", { attention_bias: true }, /expected no .*attention_bias, got true/],
  ["deepseek", { moe_layer_freq: 2 }, /expected .*moe_layer_freq to be 1, got 2/],
  ["internlm2", { bias: true }, /expected no .*bias, got true/],
  ["cohere", { use_qk_norm: true }, /expected no .*use_qk_norm, got true/],
  ["cohere2", { sliding_window: null }, /expected .*: sliding_window, without which no layer has a rope, got null/],
  ["stablelm", { use_parallel_residual: true }, /expected no .*use_parallel_residual, got true/],
] as const)("a %s with %j, which would compute something else, is refused", (name, settings, message) => {
  const refusal = expect.objectContaining({
    code: "architecture_unsupported",
    message: expect.stringMatching(message),
  });
  expect(() => openModel(changed(name, settings))).toThrow(refusal);
});

it("a dots1 has windows from max_window_layers on, without a switch", () => {
  const windows = (settings: object) =>
    attentionMixers(openModel(changed("dots1", { layer_types: null, ...settings })).config).map(({ window }) => window);
  expect(windows({ sliding_window: 16, max_window_layers: 2 })).toEqual([0, 0, 16]);
  expect(windows({ sliding_window: 16, max_window_layers: 3 })).toEqual([0, 0, 0]);
  expect(windows({ sliding_window: null, max_window_layers: 2 })).toEqual([0, 0, 0]);
});

it("qwen3moe's number of experts has two names, and one of none is dense", () => {
  const { num_local_experts: count, ...config } = JSON.parse(
    readFileSync(fixture("hf/qwen3moe/config.json"), "utf8"),
  ) as Record<string, unknown>;
  const kinds = (changes: object) => {
    const json = new JsonObject({ ...config, mlp_only_layers: [], ...changes }, "config.json", "");
    return servableConfig(json, "m").model.layers.map(({ feedForward }) => feedForward);
  };
  expect(kinds({ num_experts: count })).toEqual(kinds({ num_local_experts: count }));
  expect(kinds({ num_experts: 0 })[0]).toEqual({ kind: "dense", width: 48 });
});

it("mixtral's class does not read which layers have experts, nor another width", () => {
  const settings = { decoder_sparse_step: 2, mlp_only_layers: [0], moe_intermediate_size: 8 };
  const { layers } = openModel(changed("mixtral", settings)).config;
  expect(layers.map(({ feedForward }) => [feedForward.kind, feedForward.width])).toEqual([
    ["experts", 48],
    ["experts", 48],
  ]);
});

it("a window that is switched on and not stated has the class's width", () => {
  const base = { hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 4, num_hidden_layers: 1 };
  for (const model_type of ["qwen2", "qwen3", "qwen3_moe"]) {
    const json = {
      ...base,
      model_type,
      intermediate_size: 64,
      max_position_embeddings: 8192,
      use_sliding_window: true,
    };
    const config = new JsonObject({ ...json, max_window_layers: 0 }, "config.json", "");
    const { model } = servableConfig(config, "m", { numEmbeddings: 9, hasOutput: true });
    expect(attentionMixers(model)[0]!.window).toBe(4096);
  }
});

it("qwen3moe weighs its experts as norm_topk_prob says, a window is for all layers, and mixtral has no choice", () => {
  const weighs = (folder: string) => openModel(folder).config.routing.normalises;
  expect(weighs(changed("qwen3moe", { norm_topk_prob: true }))).toBe(true);
  expect(weighs(changed("qwen3moe", { norm_topk_prob: undefined }))).toBe(false);
  expect(weighs(changed("mixtral", { norm_topk_prob: false }))).toBe(true);
  const windowed = openModel(changed("qwen3moe", { use_sliding_window: true, sliding_window: 16 }));
  expect(attentionMixers(windowed.config).map(({ window }) => window)).toEqual([16, 16, 16]);
});

describe.each(["qwen3moe", "mixtral"])("fused experts of %s", (name) => {
  const fused = () => writeFusedFolder(fixture(`hf/${name}`), join(root, String(numFolders++)));

  it("have the log-probabilities of experts that are stored apart", async () => {
    const expected = JSON.parse(readFileSync(fixture(`hf/${name}/expected.json`), "utf8")) as ExpectedLogprobs;
    await expectLogprobs(fused(), expected);
  });

  it("the other way round are refused, and so are those of another number of experts", async () => {
    const folder = fused();
    const path = join(folder, "model.safetensors");
    const sound = readFileSync(path, "latin1");
    const [, count, rows, cols] = /experts\.gate_up_proj":\{"dtype":"BF16","shape":\[(\d+),(\d+),(\d+)\]/.exec(sound)!;
    for (const wrong of [`${count},${cols},${rows}`, `${rows},${count},${cols}`]) {
      writeFileSync(path, sound.replace(`[${count},${rows},${cols}]`, `[${wrong}]`), "latin1");
      const message = `gate_up_proj of shape [${count},${rows},${cols}], got [${wrong}]`;
      await expect(completionsOf(folder)).rejects.toMatchObject({
        code: "model_tensor",
        message: expect.stringContaining(message),
      });
    }
  });
});

describe("a folder is refused", () => {
  it.each([
    ["glm4_moe", { n_group: 3 }, "architecture_unsupported", /8 experts in whole groups/],
    ["deepseek_v2", { norm_topk_prob: true }, "architecture_unsupported", /norm_topk_prob to be false, got true/],
    [
      "deepseek_v2",
      { topk_method: "noaux_tc" },
      "architecture_unsupported",
      /to be greedy or group_limited_greedy, got/,
    ],
    [
      "deepseek_v3",
      { scoring_func: "softmax" },
      "architecture_unsupported",
      /scoring_func to be sigmoid, got "softmax"/,
    ],
    ["mistral4", { n_group: 2, topk_group: 1 }, "architecture_unsupported", /n_group to be 1, got 2/],
    [
      "mistral4",
      { rope_parameters: undefined },
      "model_config",
      /expected rope_parameters or rope_scaling, got neither/,
    ],
    ["deepseek_v3", { moe_layer_freq: 2 }, "architecture_unsupported", /moe_layer_freq to be 1, got 2/],
    ["glm4_moe_lite", { mlp_layer_types: ["dense"] }, "model_config", /mlp_layer_types to name 3 layers, got 1/],
    ["deepseek_v3", { kv_lora_rank: null }, "model_config", /kv_lora_rank to be an integer/],
    ["glm4_moe", { topk_group: 1 }, "architecture_unsupported", /with 3 in those that a token uses, got 1 of 4 groups/],
    ["glm4_moe", { topk_group: 5 }, "model_config", /topk_group to be an integer in \[1, 4\], got 5/],
    ["glm4_moe", { routed_scaling_factor: 0 }, "model_config", /routed_scaling_factor to be a positive number/],
    ["gptoss", { swiglu_limit: 10 }, "architecture_unsupported", /swiglu_limit to be 7, got 10/],
    ["gptoss", { swiglu_alpha: 1 }, "architecture_unsupported", /swiglu_alpha to be 1\.702, got 1/],
    ["gptoss", { rope_scaling: undefined }, "model_config", /expected rope_parameters or rope_scaling, got neither/],
    ["qwen3moe", { num_experts_per_tok: 8 }, "model_config", /num_experts_per_tok to be an integer in \[1, 7\], got 8/],
    ["mixtral", { num_local_experts: 1e9 }, "model_config", /num_local_experts to be an integer in \[1, 16384\]/],
    ["qwen3moe", { moe_intermediate_size: 0 }, "model_config", /moe_intermediate_size to be an integer/],
    ["qwen3moe", { decoder_sparse_step: 0 }, "model_config", /decoder_sparse_step to be an integer/],
    ["qwen3moe", { shared_expert_intermediate_size: 8 }, "architecture_unsupported", /without a part that every token/],
    ["llama", { num_local_experts: 4 }, "architecture_unsupported", /a llama without experts/],
  ] as const)("of %s with %j", (name, settings, code, message) => {
    const refusal = expect.objectContaining({ code, message: expect.stringMatching(message) });
    expect(() => openModel(changed(name, settings))).toThrow(refusal);
  });

  it.each([
    ["gptoss", { num_local_experts: 6 }, undefined, /mlp\.router\.weight of shape \[6,32\], got \[5,32\]/],
    [
      "gptoss",
      { intermediate_size: 32 },
      undefined,
      /experts\.gate_up_proj_blocks as U8 \[5,64,1,16\], got U8 \[5,128/,
    ],
    [
      "glm4_moe",
      {},
      ["model.layers.1.mlp.gate.e_score", "xodel.layers.1.mlp.gate.e_score"],
      /e_score_correction_bias of shape \[8\], got none/,
    ],
    [
      "glm4_moe",
      { n_shared_experts: 1 },
      undefined,
      /shared_experts\.gate_proj\.weight of shape \[20,32\], got \[40,32\]/,
    ],
    ["gptoss", { intermediate_size: 48 }, undefined, /experts\.gate_up_proj_blocks as U8/],
    [
      "gptoss",
      {},
      ["model.layers.0.mlp.experts.down_proj_scales", "xodel.layers.0.mlp.experts.down_proj_scales"],
      /down_proj_scales as U8.*none/,
    ],
    [
      "gptoss",
      {},
      ["model.layers.1.self_attn.sinks", "xodel.layers.1.self_attn.sinks"],
      /self_attn\.sinks of shape \[4\], got none/,
    ],
    [
      "gptoss",
      {},
      ["model.layers.0.mlp.experts.down_proj_blocks", "xodel.layers.0.mlp.experts.down_proj_blocks"],
      /computed, got model\.layers\.0\.mlp\.experts\.down_proj_scales too/,
    ],
    ["gptoss_plain", { intermediate_size: 32 }, undefined, /experts\.gate_up_proj as F32 or .* \[4,32,64\], got BF16/],
    [
      "gptoss_plain",
      {},
      ["model.layers.0.mlp.experts.gate_up_proj_bias", "xodel.layers.0.mlp.experts.gate_up_proj_bias"],
      /gate_up_proj_bias as F32 or .* \[4,128\], got none/,
    ],
    [
      "gptoss_plain",
      {},
      ["model.layers.0.mlp.router.bias", "xodel.layers.0.mlp.router.bias"],
      /mlp\.router\.bias of shape \[4\], got none/,
    ],
    ["qwen3moe", { moe_intermediate_size: 16 }, undefined, /experts\.0\.gate_proj\.weight of shape \[16,32\]/],
    ["mixtral", { num_local_experts: 5 }, undefined, /gate\.weight of shape \[5,32\], got \[4,32\]/],
    [
      "mixtral",
      {},
      ["1.block_sparse_moe.experts.3.w2", "1.block_sparse_moe.experts.9.w2"],
      /computed, got .*layers\.1\.block_sparse_moe\.experts\.9\.w2\.weight too/,
    ],
    [
      "mixtral",
      {},
      ["0.block_sparse_moe.gate", "0.block_sparse_moe.xate"],
      /computed, got .*layers\.0\.block_sparse_moe\.xate\.weight too/,
    ],
  ] as const)("of %s with %j whose tensors are others", async (name, settings, replaced, message) => {
    await expect(completionsOf(changed(name, settings, replaced))).rejects.toMatchObject({
      code: "model_tensor",
      message: expect.stringMatching(message),
    });
  });
});

it("experts of a layer that are stored in several types are refused by name", async () => {
  const expert = '0.block_sparse_moe.experts.1.w1.weight":{"dtype":';
  const folder = changed("mixtral", {}, [`${expert}"BF16"`, `${expert}"F16" `]);
  await expect(completionsOf(folder)).rejects.toMatchObject({
    code: "tensor_type_unsupported",
    message: "expected all experts of blk.0.ffn_gate_exps.weight to be of one type, got BF16 and F16",
    hint: expect.stringContaining("in the same way"),
  });
});
