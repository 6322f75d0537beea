/** An embedding model and a reranker beside a model that chats, in one fleet, by a line of YAML each. */
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { serve } from "../helpers/served-folder.js";
import { post } from "../helpers/server.js";

const EMBEDDING = fixture("hf-texts/xlm_roberta");
const RERANKER = fixture("hf-texts/bert_rank");

describe("a fleet", () => {
  let fleet: FleetProcess;
  beforeAll(async () => {
    fleet = await FleetProcess.start({
      models: [
        { name: "mill-base", model: "models/mill-base.gguf" },
        { name: "embed", model: EMBEDDING },
        { name: "rank", model: RERANKER },
      ],
    });
  });
  afterAll(() => fleet[Symbol.asyncDispose]());
  const client = () => new OpenAI({ baseURL: `${fleet.url}/v1`, apiKey: "none", maxRetries: 0 });

  test("embeds with the same bits as one engine alone, and chats beside it", async () => {
    const input = ["na\u00efve caf\u00e9", "line one"];
    const [vectors, chat] = await Promise.all([
      client().embeddings.create({ model: "embed", input, encoding_format: "float" }),
      client().chat.completions.create({
        model: "mill-base",
        messages: [{ role: "user", content: "Calculate 894 - 859." }],
      }),
    ]);
    expect(chat.choices[0]!.message.content).toContain("35");
    const alone = await serve(EMBEDDING, "auto");
    const { body } = await alone.post<{ data: object[] }>("/v1/embeddings", { model: "m", input });
    alone.close();
    expect(vectors.data).toEqual(body.data);
  });

  test("reranks on each path", async () => {
    const request = { model: "rank", query: "a", documents: ["b", "c", "d"] };
    interface Answer {
      readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
    }
    const answers = [];
    for (const path of ["/v1/rerank", "/v2/rerank", "/rerank"]) {
      answers.push((await post<Answer>(fleet.url + path, request)).results);
    }
    expect(answers[0]).toHaveLength(3);
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
    const { data } = await post<{ data: { score: number }[] }>(`${fleet.url}/score`, {
      model: "rank",
      text_1: "a",
      text_2: request.documents,
    });
    for (const { index, relevance_score } of answers[0]!) expect(data[index]!.score).toBe(relevance_score);
  });

  test("reranks with an embedding model, by the cosine", async () => {
    const [query, documents] = ["line one", ["na\u00efve caf\u00e9", "two lines", "one line"]];
    const embed = async (input: string | string[], prompt_name: string) => {
      const { data } = await post<{ data: { embedding: number[] }[] }>(`${fleet.url}/v1/embeddings`, {
        model: "embed",
        input,
        prompt_name,
      });
      return data.map(({ embedding }) => embedding);
    };
    const [[asked], vectors] = await Promise.all([embed(query, "query"), embed(documents, "document")]);
    const cosines = vectors.map((vector) => vector.reduce((sum, value, i) => sum + value * asked![i]!, 0));
    interface Answer {
      readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
    }
    const { results } = await post<Answer>(`${fleet.url}/v1/rerank`, { model: "embed", query, documents });
    const scores = results.map(({ relevance_score }) => relevance_score);
    expect(scores).toEqual([...scores].sort((a, b) => b - a));
    for (const { index, relevance_score } of results) expect(relevance_score).toBeCloseTo(cosines[index]!, 5);
  });

  test("refuses a chat with an embedding model, and says why", async () => {
    const chat = client().chat.completions.create({ model: "embed", messages: [{ role: "user", content: "Hi" }] });
    await expect(chat).rejects.toMatchObject({ status: 400, code: "wrong_task" });
  });
});
