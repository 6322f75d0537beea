/**
 * The bundled model as the engine runs it equals the PyTorch forward pass it was exported from, and its greedy answers
 * are the same.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import type { ExpectedText } from "../helpers/reference.js";
import { expectReference } from "../helpers/reference.js";
import type { TestServer } from "../helpers/server.js";
import { post, startTestServer } from "../helpers/server.js";

interface ExpectedChat extends ExpectedText {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  /** Greedy ids; the last may be the stop token. */
  readonly completion: readonly number[];
}

const file = join(repositoryRoot(), "models/mill-base.expected.json");
const { "mill-base": chats } = JSON.parse(readFileSync(file, "utf8")) as { "mill-base": ExpectedChat[] };

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer([]);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

test.each(chats)("chat of $messages.length messages", async (chat) => {
  await expectReference(server.url, [chat]);
});

async function expectGreedy(url: string, { tokens, completion }: ExpectedChat): Promise<void> {
  const answer = await post<{ choices: [{ logprobs: { tokens: string[] } }] }>(`${url}/v1/completions`, {
    prompt: tokens,
    temperature: 0,
    max_tokens: completion.length,
    logprobs: 0,
    return_tokens_as_token_ids: true,
  });
  expect(answer.choices[0].logprobs.tokens).toEqual(completion.map((id) => `token_id:${id}`));
}

test.each(chats)("greedy answer of a chat of $messages.length messages", async (chat) => {
  await expectGreedy(server.url, chat);
});

test("with the bundled heads the answers are the same, and most guesses are accepted", async () => {
  const heads = { model: join(repositoryRoot(), "models/mill-heads.gguf"), num_speculative_tokens: 4, adaptive: false };
  await using guessing = await startTestServer(["--speculative-config", JSON.stringify({ method: "heads", ...heads })]);
  for (const chat of chats) await expectGreedy(guessing.url, chat);
  const metrics = await (await fetch(`${guessing.url}/metrics`)).text();
  const count = (name: string) =>
    Number(new RegExp(`^millrace:spec_decode_num_${name}_total\\S* (\\d+)`, "m").exec(metrics)?.[1]);
  expect(count("draft_tokens")).toBeGreaterThan(20);
  expect(count("accepted_tokens") / count("draft_tokens")).toBeGreaterThan(0.5);
});
