/** A damaged tokenizer.json is refused with an error code or yields a tokenizer that encodes and decodes. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { damagedJson } from "../../../test/helpers/json-damage.js";
import { MillraceError } from "../../core/errors.js";
import { createHfTokenizer } from "./create-tokenizer.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-tokenizer-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true }));

const SAMPLE = "It's 1,234 naïve tests: <tool> </s> 你好\n\n  end";
const NUM_TOKENS = 640;

/** A vocabulary of merges is reduced to a few tokens, so that the damage also hits the other parts. */
function shortened(name: string): Record<string, unknown> {
  const json = JSON.parse(readFileSync(join(fixture(`hf-tokenizers/${name}`), "tokenizer.json"), "utf8"));
  const { model } = json as { model: { vocab: Record<string, number>; merges?: unknown[] } };
  if (model.merges === undefined) return json;
  model.vocab = Object.fromEntries(Object.entries(model.vocab).filter(([text, id]) => id < 3 || text.length === 1));
  model.merges = model.merges.slice(0, 2);
  for (const [index, pair] of model.merges.entries()) model.vocab[(pair as string[]).join("")] ??= 500 + index;
  return json;
}

it.each(["llama3", "llama2", "mistral", "gemma", "deepseek3", "bert", "xlm_roberta", "unigram_bytes"])("%s", (name) => {
  const sound = shortened(name);
  let numAccepted = 0;
  let numRefused = 0;
  fc.assert(
    fc.property(damagedJson(sound), (json) => {
      writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
      try {
        const tokenizer = createHfTokenizer(folder, NUM_TOKENS);
        const ids = tokenizer.encode(SAMPLE, { addSpecial: true, parseSpecial: true });
        for (const id of ids)
          expect(id).toSatisfy((value: number) => Number.isInteger(value) && value >= 0 && value < NUM_TOKENS);
        tokenizer.decode(ids);
        numAccepted++;
      } catch (thrown) {
        if (!(thrown instanceof MillraceError)) throw thrown;
        expect(thrown.code).toMatch(/^(tokenizer_\w+|model_config)$/);
        numRefused++;
      }
    }),
    { seed: 11, numRuns: 300 },
  );
  expect(Math.min(numAccepted, numRefused)).toBeGreaterThan(5);
});
