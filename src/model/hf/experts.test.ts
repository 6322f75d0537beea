/** Mixtures of experts in folders: which layers have them, and a folder that is not what its config.json says is refused. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { completionsOf } from "../../../test/helpers/converted.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { openModel } from "../open-model.js";

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

it("qwen3moe weighs its experts as norm_topk_prob says, a window is for all layers, and mixtral has no choice", () => {
  const weighs = (folder: string) => openModel(folder).config.routing.normalises;
  expect(weighs(changed("qwen3moe", { norm_topk_prob: true }))).toBe(true);
  expect(weighs(changed("qwen3moe", { norm_topk_prob: undefined }))).toBe(false);
  expect(weighs(changed("mixtral", { norm_topk_prob: false }))).toBe(true);
  const windowed = openModel(changed("qwen3moe", { use_sliding_window: true, sliding_window: 16 }));
  expect(windowed.config.layers.map(({ mixer }) => mixer.window)).toEqual([16, 16, 16]);
});

describe("a folder is refused", () => {
  it.each([
    ["glm4_moe", { n_group: 3 }, "architecture_unsupported", /8 experts in whole groups/],
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
    [
      "gptoss",
      { num_local_experts: 6 },
      undefined,
      /experts\.gate_up_proj_blocks as U8 \[6,128,1,16\], got U8 \[5,128/,
    ],
    [
      "gptoss",
      { intermediate_size: 32 },
      undefined,
      /experts\.gate_up_proj_blocks as U8 \[5,64,1,16\], got U8 \[5,128/,
    ],
    ["glm4_moe", {}, ["1.mlp.gate.e_score", "1.mlp.gate.e_scorx"], /e_score_correction_bias of shape \[8\], got none/],
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
      ["0.mlp.experts.down_proj_scales", "0.mlp.experts.down_proj_scalex"],
      /down_proj_scales as U8.*none/,
    ],
    ["gptoss", {}, ["1.self_attn.sinks", "1.self_attn.sinkx"], /self_attn\.sinks of shape \[4\], got none/],
    [
      "gptoss",
      {},
      ["0.mlp.experts.down_proj_blocks", "0.mlp.experts.down_proj_blockx"],
      /experts\.down_proj as F32 or/,
    ],
    ["gptoss_plain", { intermediate_size: 32 }, undefined, /experts\.gate_up_proj as F32 or .* \[4,32,64\], got BF16/],
    [
      "gptoss_plain",
      {},
      ["gate_up_proj_bias", "gate_up_proj_bixs"],
      /gate_up_proj_bias as F32 or .* \[4,128\], got none/,
    ],
    ["gptoss_plain", {}, ["0.mlp.router.bias", "0.mlp.router.bixs"], /mlp\.router\.bias of shape \[4\], got none/],
    ["qwen3moe", { moe_intermediate_size: 16 }, undefined, /experts\.0\.gate_proj\.weight of shape \[16,32\]/],
    ["mixtral", { num_local_experts: 5 }, undefined, /experts\.4\.w1\.weight of shape \[48,32\], got none/],
    ["mixtral", {}, ["1.block_sparse_moe.experts.3.w2", "1.block_sparse_moe.experts.9.w2"], /experts\.3\.w2.*got none/],
    ["mixtral", {}, ["0.block_sparse_moe.gate", "0.block_sparse_moe.xate"], /block_sparse_moe\.gate.*got none/],
  ] as const)("of %s with %j whose tensors are others", async (name, settings, replaced, message) => {
    await expect(completionsOf(changed(name, settings, replaced))).rejects.toMatchObject({
      code: "model_tensor",
      message: expect.stringMatching(message),
    });
  });
});
