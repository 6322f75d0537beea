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
  lfm2_moe: "lfm2moe",
  granitehybrid_dense: "granitehybrid",
  nemotron_h_mixed: "nemotron_h_moe",
};
/** Of layers without attention, by the beginning of a folder's name. */
const OTHER_MIXERS = {
  qwen35: ["delta"],
  qwen3next: ["delta"],
  lfm2: ["convolution"],
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
        isNeoxRope: true,
      });
      for (const mixer of attentionMixers(config)) {
        expect(mixer).toMatchObject({ numKvHeads: mixer.areValuesKeys ? 1 : 2 });
      }
      const kinds = new Set(config.layers.map(({ mixer }) => mixer.kind));
      const [, other] = Object.entries(OTHER_MIXERS).find(([start]) => name.startsWith(start)) ?? [];
      expect([...kinds].sort()).toEqual(["attention", ...(other ?? [])]);
      const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"));
      await expectLogprobs(folder, expected, TOLERANCES[name]);
    });
  }
});
