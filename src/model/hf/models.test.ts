/** Model folders of every architecture give a text the log-probabilities that transformers gives it (test/fixtures/make-hf-models.py). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { expectLogprobs } from "../../../test/helpers/hf-models.js";
import { openModel } from "../open-model.js";

describe("a folder of", () => {
  for (const name of ["llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3", "qwen3moe", "mixtral"]) {
    it(name, async () => {
      const folder = fixture(`hf/${name}`);
      const { config } = openModel(folder);
      expect(config).toMatchObject({
        architecture: name === "mixtral" ? "llama" : name,
        name,
        vocabSize: 288,
        isNeoxRope: true,
      });
      for (const { mixer } of config.layers) expect(mixer).toMatchObject({ kind: "attention", numKvHeads: 2 });
      await expectLogprobs(folder, JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")));
    });
  }
});
