/** A model folder as the hub has it, from the command line to the answer: `inspect`, `tokenize`, and the server. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { runMain } from "../helpers/run-main.js";
import { post, startTestServer } from "../helpers/server.js";

const folder = join(mkdtempSync(join(tmpdir(), "millrace-hf-")), "tiny-qwen2");
afterAll(() => rmSync(join(folder, ".."), { recursive: true }));
cpSync(fixture("hf/qwen2"), folder, { recursive: true });
cpSync(fixture("hf-tokenizers/qwen2"), folder, { recursive: true });
const { chats } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as {
  chats: { messages: object[]; ids: number[] }[];
};

test("inspect describes it", async () => {
  const { stdout } = await runMain("inspect", "--model", folder, "--json");
  expect(JSON.parse(stdout)).toMatchObject({
    name: "tiny-qwen2",
    architecture: "qwen2",
    numShards: 1,
    numTensors: 27,
    types: [{ type: "F16", numTensors: 27 }],
    bitsPerWeight: 16,
    tokenizer: { model: "tokenizer.json", numTokens: 288, hasChatTemplate: true },
    model: { contextLength: 256, numLayers: 2, width: 32, headDim: 8, vocabSize: 288 },
  });
});

test("tokenize uses its tokenizer", async () => {
  const { stdout } = await runMain("tokenize", "--model", folder, "--text", "<think>a</think>", "--json");
  expect(JSON.parse(stdout)).toHaveLength(3);
});

test("the server answers a chat with the model's own template, the same each time", async () => {
  await using server = await startTestServer(["--model", folder]);
  const { messages, ids } = chats[1]!;
  const ask = () =>
    post<{ model: string; usage: { prompt_tokens: number }; choices: [{ message: { content: string } }] }>(
      `${server.url}/v1/chat/completions`,
      { messages, max_tokens: 12, temperature: 0 },
    );
  const [first, second] = [await ask(), await ask()];
  expect(first).toMatchObject({ model: "tiny-qwen2", usage: { prompt_tokens: ids.length } });
  expect(second.choices[0].message).toEqual(first.choices[0].message);
});

test("a model with recurrent layers does what others do, and says what it has none of", async () => {
  const recurrent = join(folder, "..", "tiny-qwen35");
  cpSync(fixture("hf/qwen35_vision"), recurrent, { recursive: true });
  cpSync(fixture("hf-tokenizers/qwen2"), recurrent, { recursive: true });
  const { stdout } = await runMain("inspect", "--model", recurrent, "--json");
  expect(JSON.parse(stdout).model).toMatchObject({ numLayers: 3, numRecurrentLayers: 2, numKvHeads: 2 });
  await using server = await startTestServer(["--model", recurrent, "--max-num-seqs", "4"]);
  const { messages } = chats[1]!;
  interface Answer {
    readonly choices: readonly { readonly message: { readonly content: string }; readonly logprobs: object }[];
    readonly usage: { readonly prompt_tokens_details?: { readonly cached_tokens: number } };
  }
  const chat = { messages, max_tokens: 12, seed: 7, logprobs: true, top_logprobs: 2 };
  const ask = (more: object) => post<Answer>(`${server.url}/v1/chat/completions`, { ...chat, ...more });
  const [one, many] = await Promise.all([ask({}), ask({ n: 6 })]);
  expect(many.choices).toHaveLength(6);
  expect(many.choices[0]).toEqual(one.choices[0]);
  expect(new Set(many.choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
  const again = await ask({});
  expect(again.choices).toEqual(one.choices);
  expect(again.usage.prompt_tokens_details?.cached_tokens).toBeGreaterThan(0);
  const scored = { prompt: "a b c d e f", echo: true, logprobs: 1, max_tokens: 1 };
  const { choices } = await post<{ choices: [{ logprobs: { token_logprobs: unknown[] } }] }>(
    `${server.url}/v1/completions`,
    scored,
  );
  expect(choices[0].logprobs.token_logprobs.length).toBeGreaterThan(5);
  const { data } = await post<{ data: { embedding: number[] }[] }>(`${server.url}/v1/embeddings`, {
    input: ["a b c", "a b c", "d"],
  });
  expect(data[1]!.embedding).toEqual(data[0]!.embedding);
  expect(data[2]!.embedding).not.toEqual(data[0]!.embedding);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  const refused = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: [image] }] }),
  });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("image");
});
