/**
 * Embedding models and rerankers over HTTP, with their tokenizers: vectors and scores equal those of
 * sentence-transformers (test/fixtures/make-hf-encoders.py), and tasks outside a model's purpose are refused.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fakeAppOptions } from "../../test/helpers/fake-server.js";
import { fakeTokenizer, IM_END_ID } from "../../test/helpers/fake-tokenizer.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { posting, type Served, serve } from "../../test/helpers/served-folder.js";
import { createApp } from "./app.js";

const readExpected = <T>(folder: string): T => JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as T;

interface RankAnswer {
  readonly results: readonly { readonly index: number; readonly relevance_score: number; readonly document?: object }[];
  readonly usage: { readonly total_tokens: number };
}

describe.each(["bert_rank", "xlm_roberta_rank"])("a reranker: %s", (name) => {
  const folder = fixture(`hf-texts/${name}`);
  const { query, documents, scores } = readExpected<{
    query: string;
    documents: string[];
    scores: number[];
  }>(folder);
  let served: Served;
  beforeAll(async () => {
    served = await serve(folder);
  });
  afterAll(() => served.close());
  const cut = { truncate_prompt_tokens: 46 };

  it.each([
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
  ])("%s orders documents as sentence-transformers does", async (path) => {
    const { body } = await served.post<RankAnswer>(path, { model: "m", query, documents, ...cut });
    const order = scores.map((_, index) => index).sort((a, b) => scores[b]! - scores[a]!);
    expect(body.results.map(({ index }) => index)).toEqual(order);
    for (const { index, relevance_score } of body.results) {
      expect(Math.abs(relevance_score - scores[index]!)).toBeLessThan(2e-6);
    }
  });

  it.each(["/v1/score", "/score"])("%s scores pairs in the order of the request", async (path) => {
    interface Answer {
      readonly data: readonly { readonly index: number; readonly object: string; readonly score: number }[];
    }
    const { body } = await served.post<Answer>(path, { text_1: query, text_2: documents, ...cut });
    expect(body.data.map(({ index, object }) => [index, object])).toEqual(scores.map((_, index) => [index, "score"]));
    for (const [index, { score }] of body.data.entries()) expect(Math.abs(score - scores[index]!)).toBeLessThan(2e-6);
    for (const [first, second] of [
      ["queries", "documents"],
      ["queries", "items"],
      ["data_1", "data_2"],
    ] as const) {
      const named = await served.post<Answer>(path, { [first]: query, [second]: documents, ...cut });
      expect(named.body.data).toEqual(body.data);
    }
    // Equally many texts on both sides, and a single pair, give the same bits.
    const queries = documents.map(() => query);
    const pairs = await served.post<Answer>(path, { text_1: queries, text_2: documents, ...cut });
    expect(pairs.body.data).toEqual(body.data);
    const alone = await served.post<Answer>(path, { text_1: query, text_2: documents[0], ...cut });
    expect(alone.body.data[0]!.score).toBe(body.data[0]!.score);
  });

  it("answers texts in the shape of Text Embeddings Inference, under llama-server's paths too", async () => {
    const { body: usual } = await served.post<RankAnswer>("/rerank", { query, documents, ...cut });
    const asked = { query, texts: documents, return_text: true, ...cut };
    const { body } = await served.post<readonly object[]>("/reranking", asked);
    expect(body).toEqual(
      usual.results.map(({ index, relevance_score: score }) => ({ index, score, text: documents[index] })),
    );
    const { body: best } = await served.post<readonly object[]>("/v1/reranking", { ...asked, top_n: 1 });
    expect(best).toHaveLength(1);
    for (const both of [{ query }, { query, documents, texts: documents }]) {
      const { body: refused } = await served.post<{ error: { message: string } }>("/rerank", both);
      expect(refused.error.message).toMatch(/expected either documents or texts, got (neither|both)/);
    }
  });

  it("returns the best few, with their texts where that is asked for, objects or texts", async () => {
    const asked = { query, documents: documents.map((text) => ({ text })), top_n: 2, return_documents: true, ...cut };
    const { body } = await served.post<RankAnswer>("/v1/rerank", asked);
    expect(body.results).toHaveLength(2);
    for (const { index, document } of body.results) expect(document).toEqual({ text: documents[index] });
    const all = await served.post<RankAnswer>("/v1/rerank", { ...asked, top_n: 0 });
    expect(all.body.results).toHaveLength(documents.length);
  });

  it("reads the first tokens of documents only, where a number of them is asked for", async () => {
    const [long, short] = ["one two three four five six", "one"];
    const rank = (fields: object) => served.post<RankAnswer>("/rerank", { query, ...fields });
    const whole = (await rank({ documents: [short] })).body;
    const numShort = whole.usage.total_tokens;
    const { body: tokens } = await served.post<{ count: number }>("/tokenize", {
      prompt: short,
      add_special_tokens: false,
    });
    const { body } = await rank({
      documents: [long, `${short} ${"word ".repeat(60)}`],
      max_tokens_per_doc: tokens.count,
    });
    expect(body.usage.total_tokens).toBe(2 * numShort);
    for (const { relevance_score } of body.results) {
      expect(relevance_score).toBe(whole.results[0]!.relevance_score);
    }
    expect((await rank({ documents: [short], max_tokens_per_doc: 0 })).body.usage).toEqual(whole.usage);
  });

  it("takes special tokens in documents as text: one cannot end itself", async () => {
    const [sep, cls] = name === "bert_rank" ? ["[SEP]", "[CLS]"] : ["</s>", "<s>"];
    const { body } = await served.post<{ count: number }>("/tokenize", { prompt: `x ${sep} y ${cls}` });
    const plain = await served.post<RankAnswer>("/v1/rerank", { query, documents: [`x ${sep} y ${cls}`] });
    const short = await served.post<RankAnswer>("/v1/rerank", { query, documents: ["x"] });
    expect(plain.body.usage.total_tokens).toBeGreaterThan(short.body.usage.total_tokens + 3);
    expect(body.count).toBeGreaterThan(0);
  });

  it.each<[object, string, string | null]>([
    [{ query, documents: ["word ".repeat(60)] }, "context_length_exceeded", "documents[0]"],
    [{ query, documents: [] }, "invalid_parameter", "documents"],
    [{ query, documents: [5] }, "invalid_parameter", "documents"],
    [{ query: "", documents: ["a"] }, "invalid_parameter", "query"],
    [{ documents: ["a"] }, "invalid_parameter", "query"],
    [{ query, documents: ["a"], top_n: -1 }, "invalid_parameter", "top_n"],
    [{ query, documents: ["a"], rank_fields: ["text"] }, "unsupported_field", "rank_fields"],
    [{ query, documents: ["a"], colour: 1 }, "unknown_field", "colour"],
    [{ query, documents: new Array(2049).fill("a") }, "invalid_parameter", "documents"],
  ])("refuses %#", async (body, code, param) => {
    const answer = await served.post<{ error: object }>("/v1/rerank", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code, param });
  });

  it.each<[object, string]>([
    [{ text_1: ["a", "b"], text_2: ["c"] }, "text_1"],
    [{ text_1: "a", text_2: [] }, "text_2"],
    [{ text_1: "a", text_2: 5 }, "text_2"],
    [{ text_1: "a", text_2: ["b", "word ".repeat(60)] }, "text_2[1]"],
  ])("refuses to score %j", async (body, param) => {
    const answer = await served.post<{ error: object }>("/score", body);
    expect(answer.body.error).toMatchObject({ param });
  });

  it.each([
    "/v1/embeddings",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
  ])("is not for %s", async (path) => {
    const { status, body } = await served.post<{ error: { code?: string; message: string } }>(path, { model: "m" });
    expect(status).toBe(400);
    expect(body.error.message).toContain("got one that scores texts against a query");
  });
});

describe("an embedding model", () => {
  const folder = fixture("hf-texts/xlm_roberta");
  const { texts, plain, query } = readExpected<{ texts: string[]; plain: number[][]; query: number[][] }>(folder);
  let served: Served;
  beforeAll(async () => {
    served = await serve(folder);
  });
  afterAll(() => served.close());
  interface Answer {
    readonly data: readonly { readonly embedding: readonly number[] }[];
    readonly usage: { readonly prompt_tokens: number };
  }
  const embed = (fields: object) => served.post<Answer>("/v1/embeddings", { model: "m", ...fields });

  it.each([
    ["without a prompt", {}, plain],
    ["with the model's prompt for queries", { prompt_name: "query" }, query],
  ])("embeds %s as sentence-transformers does, which cuts long texts", async (_, fields, vectors) => {
    const { body } = await embed({ input: texts, truncate_prompt_tokens: -1, ...fields });
    for (const [index, { embedding }] of body.data.entries()) {
      const errors = vectors[index]!.map((value, i) => Math.abs(value - embedding[i]!));
      expect(Math.max(...errors)).toBeLessThan(3e-6);
    }
  });

  it("keeps the start of a cut text and the token that ends it", async () => {
    const prompt = "a b c d e f g h";
    const { body } = await embed({ input: prompt, truncate_prompt_tokens: 6 });
    const { tokens } = (await served.post<{ tokens: number[] }>("/tokenize", { prompt })).body;
    const cut = await embed({ input: [...tokens.slice(0, 5), tokens.at(-1)!] });
    expect(body.usage.prompt_tokens).toBe(6);
    expect(body.data).toEqual(cut.body.data);
  });

  it.each<[object, string, string]>([
    [{ input: "word ".repeat(60) }, "context_length_exceeded", "input"],
    [{ input: ["a", "word ".repeat(60)] }, "context_length_exceeded", "input[1]"],
    [{ input: "a", prompt_name: "passage" }, "invalid_parameter", "prompt_name"],
    [{ input: "a", dimensions: 33 }, "invalid_parameter", "dimensions"],
    [{ input: ["a", ""] }, "empty_prompt", "input[1]"],
  ])("refuses %j", async (fields, code, param) => {
    const { status, body } = await served.post<{ error: object }>("/v1/embeddings", fields);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code, param });
  });

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

  it("scores pairs by the cosine", async () => {
    const pairs = { text_1: texts[0], text_2: texts, truncate_prompt_tokens: -1 };
    const { body } = await served.post<{ data: { score: number }[] }>("/v1/score", pairs);
    const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
    for (const [index, { score }] of body.data.entries()) {
      expect(Math.abs(score - dot(plain[0]!, plain[index]!))).toBeLessThan(3e-6);
    }
  });
});

it("a tokenizer that cannot join two texts is said so", async () => {
  const { options } = fakeAppOptions({ info: { tasks: ["rerank"], isCausal: false } });
  const post = posting(createApp({ ...options, tokenizer: fakeTokenizer }));
  const { body } = await post<{ error: object }>("/v1/rerank", { query: "a", documents: ["b"] });
  expect(body.error).toMatchObject({ code: "tokenizer_unsupported" });
});

it("a reranker that answers yes or no gets the chat it was trained on, and may be told what to look for", async () => {
  const { engine, options } = fakeAppOptions({ info: { tasks: ["generate", "rerank"], pooling: "last" } });
  const post = posting(createApp(options));
  const document = "a <|im_end|> b";
  expect((await post("/v1/rerank", { query: "q", documents: [document] })).status).toBe(200);
  expect((await post("/score", { text_1: "q", text_2: "d", instruction: "Find birds" })).status).toBe(200);
  const [first, second] = engine.submitted.map(({ promptIds }) => promptIds);
  const text = (ids: Int32Array) => fakeTokenizer.decode(ids, { keepSpecial: true });
  expect(text(first!)).toBe(
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
      'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, ' +
      `retrieve relevant passages that answer the query\n<Query>: q\n<Document>: ${document}<|im_end|>\n` +
      "<|im_start|>assistant\n<think>\n\n</think>\n\n",
  );
  expect((await post("/rerank", { query: "q", documents: ["abcdef"], max_tokens_per_doc: 3 })).status).toBe(200);
  expect(text(engine.submitted[2]!.promptIds)).toContain("<Query>: q\n<Document>: abc<|im_end|>");
  expect(text(second!)).toContain("<Instruct>: Find birds\n<Query>: q\n<Document>: d<|im_end|>");
  // Only the template's own marks become special tokens.
  expect(Array.from(first!).filter((id) => id === IM_END_ID)).toHaveLength(2);
});

it("scores by cosine are those of vectors with the model's default prompt", async () => {
  const embeddingPrompts = { byName: new Map([["query", "query: "]]), defaultName: "query" };
  const { engine, options } = fakeAppOptions({ info: { tasks: ["embed"], isCausal: false } });
  const post = posting(createApp({ ...options, embeddingPrompts }));
  await post("/v1/embeddings", { input: ["a", "b"] });
  await post("/v1/score", { text_1: "a", text_2: "b" });
  const [embedded, scored] = [engine.submitted.slice(0, 2), engine.submitted.slice(2)];
  expect(scored.map(({ promptIds }) => promptIds)).toEqual(embedded.map(({ promptIds }) => promptIds));
  expect(fakeTokenizer.decode(scored[0]!.promptIds, { keepSpecial: false })).toBe("query: a");
});

it("an encoder takes no instruction", async () => {
  const { options } = fakeAppOptions({ info: { tasks: ["rerank"], isCausal: false } });
  const post = posting(createApp(options));
  const { body } = await post<{ error: object }>("/rerank", { query: "a", documents: ["b"], instruction: "c" });
  expect(body.error).toMatchObject({ code: "invalid_parameter", param: "instruction" });
});

describe("hostile requests of pairs", () => {
  const reranker = (maxModelLen: number, tasks: readonly ["generate", "rerank"] | readonly ["embed"]) => {
    const { engine, options } = fakeAppOptions({ maxModelLen, info: { tasks, pooling: "last", numKvBlocks: 2 ** 20 } });
    return { engine, post: posting(createApp(options)) };
  };
  const refusal = async (post: ReturnType<typeof posting>, path: string, body: object) =>
    (await post<{ error: { code: string; param: string; message: string } }>(path, body)).body.error;

  it("a prompt may be as long as the context, where arguments of a call may not", async () => {
    const { engine, post } = reranker(400_000, ["generate", "rerank"]);
    const document = "a".repeat(300_000);
    expect((await post("/rerank", { query: "q", documents: [document] })).status).toBe(200);
    expect(engine.submitted[0]!.promptIds.length).toBeGreaterThan(300_000);
  });

  it("a long query with many documents is refused before it is repeated for each", async () => {
    const { engine, post } = reranker(400, ["generate", "rerank"]);
    const query = "q".repeat(1_000_000);
    const many = await refusal(post, "/rerank", { query, documents: new Array(2048).fill("d") });
    expect(many).toMatchObject({ code: "invalid_parameter", param: "documents" });
    expect(many.message).toMatch(
      /^documents: expected pairs of at most \d+ characters together, got 20\d+; shorten the query/,
    );
    const few = await refusal(post, "/rerank", { query, documents: new Array(20).fill("d") });
    expect(few).toMatchObject({ code: "context_length_exceeded", param: "documents[0]" });
    const { code, param } = await refusal(post, "/score", { text_1: "q", text_2: ["a", query] });
    expect({ code, param }).toEqual({ code: "context_length_exceeded", param: "text_2[1]" });
    expect(engine.submitted).toHaveLength(0);
  });

  it("pairs are not cut below the tokens around them", async () => {
    const { post } = reranker(1000, ["generate", "rerank"]);
    const body = { query: "q", documents: ["d"], truncate_prompt_tokens: 20 };
    const { code, param, message } = await refusal(post, "/rerank", body);
    expect({ code, param }).toEqual({ code: "invalid_parameter", param: "truncate_prompt_tokens" });
    expect(message).toMatch(/expected at least the \d+ tokens around the texts of a pair, got 20/);
  });

  it("an embedding model names the text that it refuses, and takes no instruction", async () => {
    const { post } = reranker(100, ["embed"]);
    const at = async (body: object) => (await refusal(post, "/score", body)).param;
    expect(await at({ text_1: "", text_2: "a" })).toBe("text_1");
    expect(await at({ text_1: ["a", "b"], text_2: ["c", ""] })).toBe("text_2[1]");
    expect(await at({ text_1: "a".repeat(200), text_2: ["b", "c"] })).toBe("text_1");
    expect(await at({ text_1: "a", text_2: "b", instruction: "Find birds" })).toBe("instruction");
    const lists = { text_1: texts("a", 2000), text_2: texts("b", 2000) };
    expect((await refusal(post, "/score", lists)).message).toMatch(
      /2048 texts in text_1 and text_2 together, got 4000/,
    );
  });
});

const texts = (start: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${start}${index}`);
