/** Reranking with an embedding model: the cosines of the vectors of /v1/embeddings. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fakeAppOptions } from "../../../test/helpers/fake-server.js";
import { fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { posting, type Served, serve } from "../../../test/helpers/served-folder.js";
import { createApp } from "../app.js";

interface RankAnswer {
  readonly results: readonly { readonly index: number; readonly relevance_score: number; readonly document?: object }[];
  readonly usage: { readonly total_tokens: number };
}

interface Vectors {
  readonly data: readonly { readonly embedding: readonly number[] }[];
  readonly usage: { readonly prompt_tokens: number };
}

describe("a model of vectors with prompts for queries and documents", () => {
  let served: Served;
  beforeAll(async () => {
    served = await serve(fixture("hf-texts/xlm_roberta"));
  });
  afterAll(() => served.close());
  const embed = (fields: object) => served.post<Vectors>("/v1/embeddings", fields);
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  const [asked, documents] = ["line one", ["naïve café", "two lines", "one line", "naïve café", "a bear"]];
  /** The cosines of the vectors of /v1/embeddings, with the model's prompts for queries and documents. */
  const cosinesOf = async () => {
    const [query, vectors] = [
      await embed({ input: asked, prompt_name: "query" }),
      await embed({ input: documents, prompt_name: "document" }),
    ];
    const cosines = vectors.body.data.map(({ embedding }) => dot(query.body.data[0]!.embedding, embedding));
    return { cosines, numTokens: query.body.usage.prompt_tokens + vectors.body.usage.prompt_tokens };
  };

  it.each([
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
  ])("%s orders documents by the cosine of vectors with the model's prompts", async (path) => {
    const { cosines, numTokens } = await cosinesOf();
    const { body } = await served.post<RankAnswer>(path, { query: asked, documents, return_documents: true });
    const order = cosines.map((_, index) => index).sort((a, b) => cosines[b]! - cosines[a]! || a - b);
    expect(new Set(cosines.map((value) => value.toFixed(4))).size).toBe(4);
    expect(order).not.toEqual([...order].sort());
    expect(body.results.map(({ index }) => index)).toEqual(order);
    for (const { index, relevance_score, document } of body.results) {
      expect(Math.abs(relevance_score - cosines[index]!)).toBeLessThan(1e-6);
      expect(document).toEqual({ text: documents[index] });
    }
    // A text in two documents is computed once.
    const again = await embed({ input: documents[3], prompt_name: "document" });
    expect(body.usage.total_tokens).toBe(numTokens - again.body.usage.prompt_tokens);
    const best = await served.post<RankAnswer>(path, { query: asked, documents, top_n: 2 });
    expect(best.body.results).toEqual(body.results.slice(0, 2).map(({ document: _, ...result }) => result));
  });

  it("reads the first tokens of documents only, beside their prompt and the tokenizer's own", async () => {
    const rank = (fields: object) => served.post<RankAnswer>("/rerank", { query: asked, ...fields });
    const countOf = async (prompt: string) =>
      (await served.post<{ count: number }>("/tokenize", { prompt, add_special_tokens: false })).body.count;
    const long = `one line ${"word ".repeat(60)}`;
    const whole = await rank({ documents: ["one line"] });
    const cut = await rank({ documents: [long], max_tokens_per_doc: await countOf("one line") });
    expect(cut.body.usage).toEqual(whole.body.usage);
    expect(cut.body.results).toEqual(whole.body.results);
    const { error } = (await rank({ documents: [long], max_tokens_per_doc: 1000 })).body as unknown as {
      error: object;
    };
    expect(error).toMatchObject({ code: "context_length_exceeded", param: "documents[0]" });
    const both = { documents: [long], truncate_prompt_tokens: -1 };
    const full = (await rank({ ...both, max_tokens_per_doc: 1000 })).body;
    expect(full.results).toEqual((await rank(both)).body.results);
  });

  it.each<[object, string, string]>([
    [{ documents: ["b", "word ".repeat(60)] }, "context_length_exceeded", "documents[1]"],
    [{ query: "word ".repeat(60), documents: ["b"] }, "context_length_exceeded", "query"],
    [{ documents: ["b"], instruction: "Find birds" }, "invalid_parameter", "instruction"],
    [{ documents: new Array(2048).fill("b") }, "invalid_parameter", "documents"],
    [{ documents: ["b"], rank_fields: ["text"] }, "unsupported_field", "rank_fields"],
  ])("refuses to rank %#, and names the field", async (body, code, param) => {
    const answer = await served.post<{ error: object }>("/v1/rerank", { query: "a", ...body });
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code, param });
  });
});

it("ranks by vectors with the prompts for queries and documents, and computes each text once", async () => {
  const { engine, options } = fakeAppOptions({ info: { tasks: ["generate", "embed"] } });
  const named = (...names: readonly string[]) => ({
    byName: new Map(names.map((name) => [name, `${name}: `])),
    defaultName: undefined,
  });
  const read = async (embeddingPrompts: ReturnType<typeof named> | undefined, fields: object = {}) => {
    const start = engine.submitted.length;
    const post = posting(createApp({ ...options, embeddingPrompts }));
    await post("/v1/rerank", { query: "a", documents: ["b", "a", { text: "b" }], ...fields });
    return engine.submitted
      .slice(start)
      .map(({ promptIds }) => fakeTokenizer.decode(promptIds, { keepSpecial: false }));
  };
  expect(await read(named("query", "passage"))).toEqual(["query: a", "passage: b", "passage: a"]);
  expect(await read(named("search_query", "query", "corpus"))).toEqual(["search_query: a", "corpus: b", "corpus: a"]);
  expect(await read(undefined)).toEqual(["a", "b"]);
  // A model that reads from the left also keeps the start of documents.
  const cut = { documents: ["bcdef"], max_tokens_per_doc: 3 };
  expect(await read(undefined, cut)).toEqual(["a", "bcd"]);
});
