/**
 * A real embedding model over HTTP: its vectors are those of sentence-transformers
 * (test/fixtures/make-minilm-vectors.py).
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { miniLmFolder } from "../helpers/minilm.js";
import { post, startTestServer, type TestServer } from "../helpers/server.js";

interface Expected {
  readonly text: string;
  /** sentence-transformers has cut it. */
  readonly isCut: boolean;
  readonly vector: readonly number[];
}

interface Answer<Embedding = number[]> {
  readonly data: readonly { readonly embedding: Embedding }[];
  readonly usage: { readonly prompt_tokens: number };
}

const texts = JSON.parse(readFileSync(fixture("minilm-vectors.json"), "utf8")) as Expected[];
const folder = miniLmFolder();

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

describe.skipIf(folder === undefined)("all-MiniLM-L6-v2 (needs MILLRACE_MINILM, or test:long)", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer(["--model", folder!, "--served-model-name", "minilm"]);
  });
  afterAll(() => server.stop());
  const embed = <Embedding = number[]>(fields: object) =>
    post<Answer<Embedding>>(`${server.url}/v1/embeddings`, { model: "minilm", ...fields });

  it.each(texts)("embeds $text", async ({ text, isCut, vector }) => {
    const { data } = await embed({ input: text, ...(isCut ? { truncate_prompt_tokens: -1 } : {}) });
    const [{ embedding }] = data as [{ embedding: number[] }];
    expect(cosine(embedding, vector)).toBeGreaterThanOrEqual(0.99999);
    expect(Math.max(...vector.map((value, i) => Math.abs(value - embedding[i]!)))).toBeLessThan(2e-6);
  });

  it("gives the same bits to a text alone and among others", async () => {
    const inputs = texts.filter(({ isCut }) => !isCut).map(({ text }) => text);
    const together = await embed({ input: [...inputs].reverse() });
    for (const [index, input] of inputs.entries()) {
      const { data } = await embed({ input });
      expect(data[0]!.embedding).toEqual(together.data[inputs.length - 1 - index]!.embedding);
    }
  });

  it("gives base64 and fewer dimensions", async () => {
    const input = texts[0]!.text;
    const { data } = await embed<string>({ input, encoding_format: "base64", dimensions: 16 });
    const bytes = Buffer.from(data[0]!.embedding, "base64");
    const decoded = Array.from({ length: 16 }, (_, i) => bytes.readFloatLE(4 * i));
    expect((await embed({ input, dimensions: 16 })).data[0]!.embedding).toEqual(decoded);
    expect(cosine(decoded, texts[0]!.vector.slice(0, 16))).toBeGreaterThan(0.99999);
  });

  it("refuses a text that is too long, unless the request says that it may be cut", async () => {
    const { text: input } = texts.find(({ isCut }) => isCut)!;
    await expect(embed({ input })).rejects.toThrow(/context_length_exceeded/);
    const { usage } = await embed({ input, truncate_prompt_tokens: 20 });
    expect(usage.prompt_tokens).toBe(20);
  });

  it("generates nothing, and says what it is for", async () => {
    const chat = { model: "minilm", messages: [{ role: "user", content: "Hi!" }] };
    await expect(post(`${server.url}/v1/chat/completions`, chat)).rejects.toThrow(/400: .*wrong_task/);
    const models = await (await fetch(`${server.url}/v1/models`)).json();
    expect(models).toMatchObject({ data: [{ id: "minilm", max_model_len: 256, tasks: ["embed"] }] });
  });

  it("scores pairs by the cosine of their vectors", async () => {
    const [first, ...others] = texts.filter(({ isCut }) => !isCut);
    const { data } = await post<{ data: { score: number }[] }>(`${server.url}/v1/score`, {
      text_1: first!.text,
      text_2: others.map(({ text }) => text),
    });
    for (const [index, { score }] of data.entries()) {
      expect(Math.abs(score - cosine(first!.vector, others[index]!.vector))).toBeLessThan(2e-6);
    }
  });
});
