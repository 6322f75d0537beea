/** Compares a server's prompt log-probabilities with a reference that another program computed. */
import { expect } from "vitest";
import { post } from "./server.js";

export interface ExpectedText {
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

/** Relative mean NLL, top-5 log-probability, arg-max agreement, as the fixtures' README asks. */
export const TOLERANCE = {
  /** Activations are not rounded. */
  f32: { meanNll: 0.0005, logprob: 0.02, agreement: 0.99 },
  /** Activations are rounded to integers. */
  integer: { meanNll: 0.005, logprob: 0.5, agreement: 0.9 },
} as const;
type Tolerance = (typeof TOLERANCE)[keyof typeof TOLERANCE];

/**
 * Asks for each text's own log-probabilities and holds them to the reference; arg-max agreement counts over all of them
 * together.
 */
export async function expectReference(
  url: string,
  texts: readonly ExpectedText[],
  tolerance: Tolerance = TOLERANCE.f32,
): Promise<void> {
  let numEqual = 0;
  let numPositions = 0;
  for (const text of texts) {
    const answer = await post<EchoAnswer>(`${url}/v1/completions`, {
      prompt: text.tokens,
      echo: true,
      logprobs: 16,
      max_tokens: 0,
      return_tokens_as_token_ids: true,
    });
    const got = answer.choices[0].logprobs;
    compare(got, text, tolerance);
    // top_logprobs[i] is the distribution after position i − 1.
    const argmax = got.top_logprobs.slice(1).map((top) => bestId(top!));
    numEqual += argmax.filter((id, position) => id === text.greedy[position]).length;
    numPositions += argmax.length;
  }
  expect(numEqual / numPositions).toBeGreaterThanOrEqual(tolerance.agreement);
}

function compare(got: EchoAnswer["choices"][0]["logprobs"], text: ExpectedText, tolerance: Tolerance): void {
  expect(got.tokens).toEqual(text.tokens.map((id) => `token_id:${id}`));
  const logprobs = got.token_logprobs.slice(1).map((logprob) => logprob!);
  const meanNll = -logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length;
  expect(Math.abs(meanNll / text.meanNll - 1)).toBeLessThan(tolerance.meanNll);
  for (const [position, top] of Object.entries(text.top)) {
    const mine = got.top_logprobs[Number(position) + 1];
    if (mine === undefined || mine === null) continue;
    for (const [id, logprob] of top.slice(0, 5)) {
      expect(mine[`token_id:${id}`], `position ${position}, token ${id}`).toBeDefined();
      expect(Math.abs(mine[`token_id:${id}`]! - logprob)).toBeLessThan(tolerance.logprob);
    }
  }
}

function bestId(top: Readonly<Record<string, number>>): number {
  const [best] = Object.entries(top).reduce((most, entry) => (entry[1] > most[1] ? entry : most));
  return Number(best.replace("token_id:", ""));
}
