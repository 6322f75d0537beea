/** Every fixture model served over HTTP reproduces the logits that llama.cpp computed in f32 from exactly dequantised weights. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fixture, hasFixture } from "../helpers/fixtures.js";
import { post, startTestServer } from "../helpers/server.js";

interface ExpectedText {
  readonly tokens: readonly number[];
  /** Arg-max after each position. */
  readonly greedy: readonly number[];
  readonly meanNll: number;
  /** Top log-probabilities by position. */
  readonly top: Readonly<Record<string, readonly (readonly [id: number, logprob: number])[]>>;
}

interface EchoAnswer {
  readonly choices: readonly [
    {
      readonly logprobs: {
        readonly tokens: readonly string[];
        readonly token_logprobs: readonly (number | null)[];
        readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
      };
    },
  ];
}

/** Tolerances of the fixtures' README: relative mean NLL, top-5 log-probability, arg-max agreement. Activations stay f32 here, so every file is held to F16's. */
const TOLERANCE = { meanNll: 0.0005, logprob: 0.02, agreement: 0.99 };

const isPresent = hasFixture("models/expected.json");
if (!isPresent) console.warn("SKIPPED: reference models, no fixtures folder (set MILLRACE_FIXTURES)");

describe.skipIf(!isPresent)("reference models over HTTP [needs the fixtures folder]", () => {
  const expected = isPresent
    ? (JSON.parse(readFileSync(fixture("models/expected.json"), "utf8")) as Record<string, ExpectedText[]>)
    : {};

  test.each(Object.keys(expected))("%s", async (name) => {
    await using server = await startTestServer(["--model", fixture(`models/${name}.gguf`)]);
    for (const text of expected[name]!) {
      const answer = await post<EchoAnswer>(`${server.url}/v1/completions`, {
        model: name,
        prompt: text.tokens,
        echo: true,
        logprobs: 16,
        max_tokens: 0,
        return_tokens_as_token_ids: true,
      });
      compare(answer.choices[0].logprobs, text);
    }
  });
});

function compare(got: EchoAnswer["choices"][0]["logprobs"], text: ExpectedText): void {
  expect(got.tokens).toEqual(text.tokens.map((id) => `token_id:${id}`));
  const logprobs = got.token_logprobs.slice(1).map((logprob) => logprob!);
  const meanNll = -logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length;
  expect(Math.abs(meanNll / text.meanNll - 1)).toBeLessThan(TOLERANCE.meanNll);

  // top_logprobs[i] is the distribution after position i − 1.
  const argmax = got.top_logprobs.slice(1).map((top) => bestId(top!));
  const numEqual = argmax.filter((id, position) => id === text.greedy[position]).length;
  expect(numEqual / argmax.length).toBeGreaterThanOrEqual(TOLERANCE.agreement);
  for (const [position, top] of Object.entries(text.top)) {
    const mine = got.top_logprobs[Number(position) + 1];
    if (mine === undefined || mine === null) continue;
    for (const [id, logprob] of top.slice(0, 5)) {
      expect(mine[`token_id:${id}`], `position ${position}, token ${id}`).toBeDefined();
      expect(Math.abs(mine[`token_id:${id}`]! - logprob)).toBeLessThan(TOLERANCE.logprob);
    }
  }
}

function bestId(top: Readonly<Record<string, number>>): number {
  const [best] = Object.entries(top).reduce((most, entry) => (entry[1] > most[1] ? entry : most));
  return Number(best.replace("token_id:", ""));
}
