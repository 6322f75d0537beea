/** The official Node client against the real server with the bundled model. */
import OpenAI, { BadRequestError } from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TestServer } from "../helpers/server.js";
import { startTestServer } from "../helpers/server.js";

let server: TestServer;
let client: OpenAI;
let model: string;
beforeAll(async () => {
  server = await startTestServer([]);
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "unused" });
  model = (await client.models.list()).data[0]!.id;
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const storyPrompt = (animal: string) =>
  `<|im_start|>user\nTell me a short story about a ${animal}.<|im_end|>\n<|im_start|>assistant\n`;
const messages = [{ role: "user" as const, content: "Hello! Who are you?" }];

test("a chat has the same text and usage, streamed or complete", async () => {
  const body = { model, messages, max_tokens: 24, temperature: 0 };
  const whole = await client.chat.completions.create(body);
  const stream = await client.chat.completions.create({
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let numTokens: number | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    numTokens = chunk.usage?.completion_tokens ?? numTokens;
  }
  expect(text).toBe(whole.choices[0]!.message.content);
  expect(text.length).toBeGreaterThan(0);
  expect(numTokens).toBe(whole.usage!.completion_tokens);
});

test("a repeated prompt comes from the prefix cache and says so", async () => {
  const long = [{ role: "user" as const, content: `Remember this. ${"The mill turns slowly. ".repeat(12)}` }];
  const first = await client.chat.completions.create({ model, messages: long, max_tokens: 8, temperature: 0 });
  const second = await client.chat.completions.create({ model, messages: long, max_tokens: 8, temperature: 0 });
  expect(second.usage!.prompt_tokens_details!.cached_tokens).toBeGreaterThan(16);
  expect(second.choices[0]!.message.content).toBe(first.choices[0]!.message.content);
});

test("log-probabilities of a chat", async () => {
  const answer = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 5,
    logprobs: true,
    top_logprobs: 4,
    temperature: 0,
  });
  const content = answer.choices[0]!.logprobs!.content!;
  expect(content).toHaveLength(answer.usage!.completion_tokens);
  for (const entry of content) {
    expect(entry.top_logprobs).toHaveLength(4);
    expect(entry.top_logprobs[0]!.logprob).toBe(entry.logprob);
  }
});

test("completions of several prompts and choices, reproducible by seed", async () => {
  const body = { model, prompt: ["fox", "goat"].map(storyPrompt), n: 2, max_tokens: 24, temperature: 1, seed: 11 };
  const first = await client.completions.create(body);
  const second = await client.completions.create(body);
  expect(first.choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3]);
  expect(second.choices.map((choice) => choice.text)).toEqual(first.choices.map((choice) => choice.text));
  expect(first.choices[0]!.text).not.toBe(first.choices[1]!.text);
});

test("responses", async () => {
  const answer = await client.responses.create({ model, input: "Hello!", max_output_tokens: 16 });
  expect(answer.output_text.length).toBeGreaterThan(0);
});

test("refusals are typed", async () => {
  const wrong = client.chat.completions.create({ model, messages, temperature: -1 });
  await expect(wrong).rejects.toThrow(BadRequestError);
  await expect(wrong).rejects.toMatchObject({ code: "invalid_parameter", param: "temperature" });
});
