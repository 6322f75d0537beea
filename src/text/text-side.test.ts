/** Reads a model's files other than its weights, in both model formats. */

import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { BUNDLED_MODELS, bundledModelPath } from "../formats/locate-model.js";
import { loadTextSide } from "./text-side.js";

test("the bundled models contain sampling defaults", async () => {
  for (const name of BUNDLED_MODELS) {
    const { readSampling } = await loadTextSide(bundledModelPath(name));
    expect(readSampling()).toEqual({ temperature: 0 });
  }
});

test("a folder's generation_config.json sets its sampling defaults; a broken one does not affect the tokenizer and template", async () => {
  const folder = tempTree({});
  for (const part of ["hf/qwen2", "hf-tokenizers/qwen2"]) {
    cpSync(join(repositoryRoot(), "test/fixtures", part), folder, { recursive: true });
  }
  const write = (temperature: number): void =>
    writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ temperature, top_k: 20 }));
  write(0.6);
  expect((await loadTextSide(folder)).readSampling()).toEqual({ temperature: 0.6, top_k: 20 });
  write(-1);
  const { readSampling } = await loadTextSide(folder);
  expect(readSampling).toThrow(expect.objectContaining({ code: "model_config" }));
});
