/** /rerank and /score by an embedding model: cosines of the vectors that sentence-transformers gives for the texts. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fixture } from "../../test/helpers/fixtures.js";
import { type Served, serve } from "../../test/helpers/served-folder.js";

interface RankAnswer {
  readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
  readonly usage: { readonly total_tokens: number };
}

interface Answer {
  readonly data: readonly { readonly embedding: readonly number[] }[];
  readonly usage: { readonly prompt_tokens: number };
}

const folder = fixture("hf-texts/xlm_roberta");
const { texts, plain, query } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as {
  texts: string[];
  plain: number[][];
  query: number[][];
};
let served: Served;
beforeAll(async () => {
  served = await serve(folder);
});
afterAll(() => served.close());
const embed = (fields: object) => served.post<Answer>("/v1/embeddings", { model: "m", ...fields });

it.each<[object, string, string]>([
  [{ text_1: "word ".repeat(60), text_2: "a" }, "context_length_exceeded", "text_1"],
  [{ text_1: "a", text_2: ["b", "word ".repeat(60)] }, "context_length_exceeded", "text_2[1]"],
  [{ text_1: ["a", "b"], text_2: "c" }, "invalid_parameter", "text_1"],
  [{ text_1: "a", text_2: "b", instruction: "Find birds" }, "invalid_parameter", "instruction"],
  [{ text_1: "a", text_2: "b", use_activation: false }, "unsupported_field", "use_activation"],
  [{ text_1: "a", text_2: new Array(2048).fill("b") }, "invalid_parameter", "text_2"],
])("refuses to score %#, and names the field", async (body, code, param) => {
  const answer = await served.post<{ error: object }>("/score", body);
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({ code, param });
});

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);

it("scores pairs by the cosine", async () => {
  const pairs = { text_1: texts[0], text_2: texts, truncate_prompt_tokens: -1 };
  const { body } = await served.post<{ data: { score: number }[] }>("/v1/score", pairs);
  for (const [index, { score }] of body.data.entries()) {
    expect(Math.abs(score - dot(plain[0]!, plain[index]!))).toBeLessThan(3e-6);
  }
});

it("orders documents by the cosine to the query, each behind the model's prompt for it, and reads each once", async () => {
  const cut = { truncate_prompt_tokens: -1 };
  const { body } = await served.post<RankAnswer>("/v1/rerank", { query: texts[0], documents: texts, ...cut });
  const ofDocuments = (await embed({ input: texts, prompt_name: "document", ...cut })).body;
  const ofQuery = (await embed({ input: texts[0], prompt_name: "query", ...cut })).body;
  const cosines = ofDocuments.data.map(({ embedding }) => dot(query[0]!, embedding));
  const order = cosines.map((_, index) => index).sort((a, b) => cosines[b]! - cosines[a]! || a - b);
  expect(body.results.map(({ index }) => index)).toEqual(order);
  for (const { index, relevance_score: score } of body.results) {
    expect(Math.abs(score - cosines[index]!)).toBeLessThan(3e-6);
  }
  expect(body.usage.total_tokens).toBe(ofQuery.usage.prompt_tokens + ofDocuments.usage.prompt_tokens);
});

it("reads the first tokens of each document, and shows the best", async () => {
  const documents = ["a b c d e f g h", "a b"];
  const rank = async (fields: object) => (await served.post<RankAnswer>("/rerank", { query: "a", ...fields })).body;
  const [whole, none] = [await rank({ documents, max_tokens_per_doc: 6, top_n: 1 }), await rank({ documents: ["a"] })];
  expect(whole.results).toHaveLength(1);
  const numTokensOf = async (input: string | string[], most?: number) =>
    (await embed({ input, prompt_name: "document", truncate_prompt_tokens: most })).body.usage.prompt_tokens;
  const ofQuery = none.usage.total_tokens - (await numTokensOf("a"));
  expect(whole.usage.total_tokens - ofQuery).toBe(await numTokensOf(documents, 6));
  const least = await rank({ documents, max_tokens_per_doc: 6, truncate_prompt_tokens: 3 });
  expect(least.usage.total_tokens).toBe(3 + (await numTokensOf(documents, 3)));
});

it.each<[object, string, string]>([
  [{ documents: ["a", "word ".repeat(60)] }, "context_length_exceeded", "documents[1]"],
  [{ query: "word ".repeat(60), documents: ["a"] }, "context_length_exceeded", "query"],
  [{ documents: ["a"], instruction: "Find birds" }, "invalid_parameter", "instruction"],
  [{ documents: new Array(2048).fill("b") }, "invalid_parameter", "documents"],
])("refuses to order %#, and names the field", async (fields, code, param) => {
  const { status, body } = await served.post<{ error: object }>("/v1/rerank", { query: "a", ...fields });
  expect(status).toBe(400);
  expect(body.error).toMatchObject({ code, param });
});
