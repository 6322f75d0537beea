import { expect, test } from "vitest";
import { modelSpec } from "../../../test/helpers/fleet.js";
import type { ModelSpec } from "../../fleet/upstream/model-spec.js";
import { bundledModelPath } from "../../formats/locate-model.js";
import { loadTextSide } from "../../text/text-side.js";
import { loadPromptReader } from "./prompt-reader.js";

function specWith(args: readonly string[], program?: readonly [string]): ModelSpec {
  const { program: _, ...spec } = modelSpec({ engine: "millrace", options: { model: bundledModelPath() }, args });
  return program === undefined ? spec : { ...spec, program };
}
const body = { prompt: "The mill stood by the river." };

test("prompts are read with the model's tokenizer", async () => {
  const read = await loadPromptReader(specWith(["--threads", "1", "--kv-cache-dtype", "int8"]));
  const { tokenizer } = await loadTextSide(bundledModelPath());
  const ids = tokenizer.encode(body.prompt, { addSpecial: true, parseSpecial: true });
  expect(Array.from((await read!("/v1/completions", body, { tenant: "" }))!.prompts[0]!)).toEqual(Array.from(ids));
});

test("another program's prompts, and those of caches kept apart by key, are not read", async () => {
  expect(await loadPromptReader(specWith([], ["other"]))).toBeUndefined();
  expect(await loadPromptReader(specWith(["--api-key", "k", "--isolate-api-keys"]))).toBeUndefined();
});

test("flags that the engine would refuse are refused, and nothing is printed or ended", async () => {
  await expect(loadPromptReader(specWith(["--no-such-flag"]))).rejects.toThrow(/unknown option/);
});
