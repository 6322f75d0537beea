/**
 * What somebody meets who starts the server and asks the bundled model something, with the defaults that its file
 * carries.
 */
import { expect, test } from "vitest";
import { scoreAnswer } from "../../src/quality/score-answer.js";
import { PHRASINGS } from "../helpers/phrasings.js";
import { post, startTestServer } from "../helpers/server.js";

interface ChatAnswer {
  readonly choices: readonly [{ readonly message: { readonly content: string } }];
}

const MIN_RIGHT = 19;

test("the model answers 19 of 20 phrasings of supported tasks correctly", { timeout: 120_000 }, async () => {
  await using server = await startTestServer([]);
  const models: unknown = await (await fetch(`${server.url}/v1/models`)).json();
  expect(models).toMatchObject({ data: [{ default_sampling_params: { temperature: 0 } }] });
  const wrong: string[] = [];
  for (const { ask, check, expected } of PHRASINGS) {
    const body = { messages: [{ role: "user", content: ask }] };
    const { choices } = await post<ChatAnswer>(`${server.url}/v1/chat/completions`, body);
    const { exact, note = "" } = await scoreAnswer(check, expected, choices[0].message.content);
    if (!exact) wrong.push(`${ask} → ${choices[0].message.content} ${note}`);
  }
  expect(PHRASINGS).toHaveLength(20);
  expect(wrong.length, wrong.join("\n")).toBeLessThanOrEqual(PHRASINGS.length - MIN_RIGHT);
});
