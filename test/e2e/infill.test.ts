/** Filling in between two texts, on a server whose model has the tokens for it: the model sees them in their order. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeRandomModel } from "../helpers/random-model.js";
import { post, startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

const MARKERS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"];

interface Answer {
  readonly tokens: readonly number[];
  readonly tokens_evaluated: number;
}

test("/infill continues after the prefix, the prompt and the suffix between the model's own tokens", async () => {
  const path = join(tempTree({}), "code.gguf");
  writeRandomModel(path, { architecture: "llama", seed: 5, markers: { texts: MARKERS, areSpecial: true } });
  await using server = await startTestServer(["--model", path, "--threads", "1"]);
  const idsOf = async (content: string): Promise<readonly number[]> =>
    (await post<{ tokens: readonly number[] }>(`${server.url}/tokenize`, { content })).tokens;
  const [before, after] = ["def add(a, b):\n", "\nprint(add(1, 2))"];
  const [prefix, suffix, middle, ...more] = await idsOf(MARKERS.join(""));
  expect([prefix, suffix, middle, more]).toEqual([expect.any(Number), expect.any(Number), expect.any(Number), []]);
  const settings = { n_predict: 12, temperature: 0, return_tokens: true };
  const ask = (path: string, body: object) => post<Answer>(`${server.url}${path}`, { ...settings, ...body });
  const fill = (prompt: string, suffixText: string) =>
    ask("/infill", { input_prefix: before, input_suffix: suffixText, prompt });

  const given = [prefix, ...(await idsOf(`${before}    return`)), suffix, ...(await idsOf(after)), middle];
  const expected = await ask("/completion", { prompt: given });
  const filled = await fill("    return", after);
  expect(filled.tokens).toHaveLength(12);
  expect(filled.tokens_evaluated).toBe(given.length);
  expect(filled.tokens).toEqual(expected.tokens);
  // The text behind the gap counts.
  expect((await fill("    return", "\nassert add(2, 2) == 4")).tokens).not.toEqual(filled.tokens);
});
