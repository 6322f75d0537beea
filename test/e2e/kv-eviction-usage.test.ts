/**
 * Eviction is never silent: every API's answer says how much of its context was dropped, whole and streamed, and says
 * nothing where it saw all.
 */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { startTestServer, type TestServer } from "../helpers/server.js";

const MODEL = "mill-base";
const LONG = Array.from({ length: 60 }, (_, i) => `The fox number ${i} went to the river.`).join(" ");
const SHORT = "Hello.";
const MAX_TOKENS = 8;

let server: TestServer;
beforeAll(async () => {
  const model = join(repositoryRoot(), `models/${MODEL}.gguf`);
  server = await startTestServer(["--model", model, "--kv-eviction", "window:128", "--threads", "1"]);
}, 60_000);
afterAll(() => server?.stop());

async function answer(path: string, body: object): Promise<string> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return text;
}

interface Counts {
  readonly kv_evicted_tokens?: number;
}

/** What the APIs' answers and events have of interest. */
interface Answer extends Counts {
  readonly type?: string;
  readonly usage?: Counts;
  readonly response?: { readonly usage: Counts };
}

const wholeOf = async (path: string, body: object): Promise<Answer> => JSON.parse(await answer(path, body)) as Answer;

/** Objects of a stream's events, or of its lines. */
const eventsOf = (text: string): readonly Answer[] =>
  text
    .split("\n")
    .map((line) => line.replace(/^data: /, ""))
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Answer);

const messagesOf = (content: string) => [{ role: "user", content }];

interface Api {
  readonly path: string;
  readonly body: (prompt: string) => object;
  /** Of the whole answer. */
  readonly usage: (answer: Answer) => Counts | undefined;
  readonly stream: object;
  /** Of the stream's events, those that have the final counts. */
  readonly last: (events: readonly Answer[]) => Counts | undefined;
}

const CHAT = (prompt: string) => ({
  model: MODEL,
  messages: messagesOf(prompt),
  temperature: 0,
  max_tokens: MAX_TOKENS,
});
const OLLAMA = { model: MODEL, stream: false, options: { num_predict: MAX_TOKENS, temperature: 0 } };

const APIS: Readonly<Record<string, Api>> = {
  chat: {
    path: "/v1/chat/completions",
    body: CHAT,
    usage: ({ usage }) => usage,
    stream: { stream: true, stream_options: { include_usage: true } },
    last: (events) => events.at(-1)?.usage,
  },
  completions: {
    path: "/v1/completions",
    body: (prompt) => ({ model: MODEL, prompt, temperature: 0, max_tokens: MAX_TOKENS }),
    usage: ({ usage }) => usage,
    stream: { stream: true, stream_options: { include_usage: true } },
    last: (events) => events.at(-1)?.usage,
  },
  responses: {
    path: "/v1/responses",
    body: (input) => ({ model: MODEL, input, temperature: 0, max_output_tokens: 16 }),
    usage: ({ usage }) => usage,
    stream: { stream: true },
    last: (events) => events.at(-1)?.response?.usage,
  },
  messages: {
    path: "/v1/messages",
    body: CHAT,
    usage: ({ usage }) => usage,
    stream: { stream: true },
    last: (events) => events.find(({ type }) => type === "message_delta")?.usage,
  },
  "Ollama's chat": {
    path: "/api/chat",
    body: (prompt) => ({ ...OLLAMA, messages: messagesOf(prompt) }),
    usage: (whole) => whole,
    stream: { stream: true },
    last: (events) => events.at(-1),
  },
  "Ollama's generate": {
    path: "/api/generate",
    body: (prompt) => ({ ...OLLAMA, prompt }),
    usage: (whole) => whole,
    stream: { stream: true },
    last: (events) => events.at(-1),
  },
};

test.each(Object.entries(APIS))("%s: an answer without all of its context says so", async (_name, api) => {
  const { path, body, usage, stream, last } = api;
  const dropped = usage(await wholeOf(path, body(LONG)))?.kv_evicted_tokens;
  expect(dropped).toBeGreaterThan(100);
  expect(Number.isInteger(dropped)).toBe(true);
  expect(last(eventsOf(await answer(path, { ...body(LONG), ...stream })))?.kv_evicted_tokens).toBe(dropped);
  expect(usage(await wholeOf(path, body(SHORT)))).not.toHaveProperty("kv_evicted_tokens");
  expect(last(eventsOf(await answer(path, { ...body(SHORT), ...stream })))).not.toHaveProperty("kv_evicted_tokens");
});

test("choices of one chat are summed", async () => {
  const [one, three] = await Promise.all(
    [1, 3].map(async (n) => (await wholeOf("/v1/chat/completions", { ...CHAT(LONG), n })).usage?.kv_evicted_tokens),
  );
  expect(three).toBe(3 * one!);
});
