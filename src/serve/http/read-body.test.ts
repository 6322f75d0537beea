/** Bodies through their routes: the fields that may hold long lists of token ids. */
import { expect, it } from "vitest";
import { ask } from "../../../test/helpers/ask.js";
import { MAX_JSON_MARKS } from "../../core/json-body.js";

const MANY = MAX_JSON_MARKS + 1;
const IDS = Array.from({ length: MANY }, () => 65);
const ROOMY = { maxModelLen: 2 * MANY, info: { numKvBlocks: MANY } };

it.each([
  ["/completion", { prompt: IDS, n_predict: 1 }],
  ["/completion", { prompt: [IDS, IDS], n_predict: 1 }],
  ["/v1/completions", { prompt: IDS, max_tokens: 1 }],
  ["/detokenize", { tokens: IDS }],
])("%s takes more token ids than a body may have of other parts", async (path, body) => {
  const { body: answer, fake } = await ask(path, body, ROOMY);
  expect(answer.error).toBeUndefined();
  for (const { promptIds } of fake.engine.submitted) expect(promptIds).toHaveLength(MANY);
});

it("/v1/embeddings takes them too", async () => {
  const { body } = await ask("/v1/embeddings", { input: IDS }, { ...ROOMY, info: { ...ROOMY.info, tasks: ["embed"] } });
  expect(body.error).toBeUndefined();
});

it.each([
  ["/completion", { stop: IDS, prompt: "a" }],
  ["/v1/responses", { input: IDS }],
])("%s refuses them where no field of its own takes them", async (path, body) => {
  expect((await ask(path, body, ROOMY)).body.error.code).toBe("invalid_json");
});
