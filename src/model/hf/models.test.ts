/**
 * Model folders of every architecture give a text the log-probabilities that transformers gives it
 * (test/fixtures/make-hf-models.py).
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { expectLogprobs, TOLERANCES } from "../../../test/helpers/hf-models.js";
import { attentionMixers } from "../description/servable.js";
import { openModel } from "../open-model.js";

/** Where it is not the folder's name. */
const ARCHITECTURE_OF: Readonly<Record<string, string>> = {
  olmo3: "olmo2",
  mixtral: "llama",
  gptoss: "gpt-oss",
  gptoss_plain: "gpt-oss",
  gemma4_e: "gemma4",
  gemma4_moe: "gemma4",
  glm4_moe: "glm4moe",
  qwen35_vision: "qwen35",
  qwen2_vl: "qwen2",
  qwen2_5_vl: "qwen2",
  qwen3_vl: "qwen3",
  glm4v: "glm4",
  glm4v_moe: "glm4moe",
  internvl: "qwen3",
  smolvlm: "llama",
  qwen3_vl_moe: "qwen3moe",
  lfm2_moe: "lfm2moe",
  exaone4_small: "exaone4",
  ernie4_5_moe: "ernie4_5-moe",
  ernie4_5_moe_steps: "ernie4_5-moe",
  hunyuan_v1_dense: "hunyuan-dense",
  hunyuan_v1_moe: "hunyuan-moe",
  minimax_m2: "minimax-m2",
  qwen2_moe: "qwen2moe",
  cohere: "command-r",
  granitemoeshared: "granitemoe",
  deepseek_v2: "deepseek2",
  deepseek_v2_lite: "deepseek2",
  deepseek_v3: "deepseek2",
  glm4_moe_lite: "deepseek2",
  granitehybrid_dense: "granitehybrid",
  nemotron_h_mixed: "nemotron_h_moe",
  bailing_moe: "bailingmoe",
  bailing_moe_v2: "bailingmoe2",
  gpt_neox: "gptneox",
  gpt_neox_steps: "gptneox",
  phi: "phi2",
  gpt_bigcode: "starcoder",
  glm: "chatglm",
  internlm3: "llama",
  ministral: "mistral",
};
/** Their folders have the rope's pairs side by side. */
const INTERLEAVED: readonly string[] = [
  "ernie4_5",
  "ernie4_5_moe",
  "ernie4_5_moe_steps",
  "glm",
  "glm4",
  "glm4v",
  "cohere",
  "cohere2",
  "mistral4",
];
const KV_HEADS: Readonly<Record<string, number>> = {
  olmoe: 4,
  dots1: 4,
  gpt2: 4,
  gpt_neox: 4,
  gpt_neox_steps: 4,
  opt: 4,
  gpt_bigcode: 1,
};
/** Of layers without attention, by the beginning of a folder's name. */
const OTHER_MIXERS = {
  qwen35: ["delta"],
  qwen3next: ["delta"],
  lfm2: ["convolution"],
  lfm3: ["convolution"],
  granitehybrid: ["mamba"],
  nemotron_h: ["mamba", "none"],
} as const;

describe("a folder of", () => {
  for (const name of readdirSync(fixture("hf"))) {
    it(name, async () => {
      const folder = fixture(`hf/${name}`);
      const { config } = openModel(folder);
      expect(config).toMatchObject({
        architecture: ARCHITECTURE_OF[name] ?? name,
        name,
        vocabSize: 288,
        isNeoxRope: !INTERLEAVED.includes(name) && !name.startsWith("deepseek_"),
      });
      for (const mixer of attentionMixers(config)) {
        expect(mixer).toMatchObject({ numKvHeads: mixer.areValuesKeys ? 1 : (KV_HEADS[name] ?? 2) });
      }
      const kinds = new Set(config.layers.map(({ mixer }) => mixer.kind));
      const [, other] = Object.entries(OTHER_MIXERS).find(([start]) => name.startsWith(start)) ?? [];
      const attention = ["deepseek2", "mistral4"].includes(config.architecture) ? "latent" : "attention";
      expect([...kinds].sort()).toEqual([attention, ...(other ?? [])].sort());
      const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"));
      await expectLogprobs(folder, expected, TOLERANCES[name]);
    });
  }
});
