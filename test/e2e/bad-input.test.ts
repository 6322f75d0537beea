/**
 * Everything a request can do wrong, against real servers, while a well-formed stream goes on beside it: coded
 * refusals, logged once, nothing leaked, nobody else harmed. size: one server and its checks serve a long table of bad
 * requests
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { post, startTestServer, type TestServer } from "../helpers/server.js";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const STORIES = ["--model", fixture("models/stories260k.gguf")];
/** Blocks of 16 tokens take 10 KiB, so this holds 128 tokens. */
const TINY = ["--kv-cache-memory-bytes", "80KiB", "--max-num-seqs", "2", "--max-waiting-requests", "2"];
const KEY = "right-key";

const folder = mkdtempSync(join(tmpdir(), "millrace-bad-input-"));
/** The model's context is 512 tokens. */
let roomy: TestServer;
let tiny: TestServer;
/** Codes that were provoked, by the request's id. */
const expectedCodes = new Map<string, string>();
let companion: { stop(): Promise<number> };

interface Refusal {
  readonly name: string;
  readonly body: unknown;
  readonly code: string;
  readonly path?: string;
  readonly status?: number;
  /** What the message must hold: the field, the arithmetic. */
  readonly says?: string;
}

const completion = (fields: Readonly<Record<string, unknown>>) => ({ prompt: "Once", max_tokens: 4, ...fields });
const chat = (fields: Readonly<Record<string, unknown>>) => ({
  messages: [{ role: "user", content: "Once" }],
  max_tokens: 4,
  ...fields,
});
const deep = (depth: number) => `{"prompt":"a","metadata":${"[".repeat(depth)}${"]".repeat(depth)}}`;

const REFUSALS: readonly Refusal[] = [
  { name: "broken JSON", body: "{", code: "invalid_json" },
  { name: "no body", body: "", code: "invalid_json" },
  { name: "NaN", body: `{"prompt":"a","temperature":NaN}`, code: "invalid_json" },
  { name: "nesting without end", body: deep(1_000_000), code: "invalid_json", says: "deep" },
  { name: "a list for a body", body: [], code: "invalid_json" },
  { name: "an empty text", body: completion({ prompt: "" }), code: "empty_prompt" },
  { name: "an empty list", body: completion({ prompt: [] }), code: "empty_prompt" },
  { name: "an empty list of ids", body: completion({ prompt: [[1], []] }), code: "empty_prompt", says: "prompt[1]" },
  { name: "no messages", path: CHAT, body: chat({ messages: [] }), code: "empty_prompt" },
  { name: "texts and ids mixed", body: completion({ prompt: ["a", 1] }), code: "invalid_parameter", says: "prompt" },
  { name: "an id too many", body: completion({ prompt: [512] }), code: "token_out_of_range", says: "511" },
  { name: "a negative id", body: completion({ prompt: [1, -1] }), code: "token_out_of_range" },
  { name: "an id beyond 32 bits", body: completion({ prompt: [2 ** 32 + 1] }), code: "token_out_of_range" },
  { name: "half an id", body: completion({ prompt: [1.5] }), code: "invalid_parameter" },
  {
    name: "a prompt one token longer than the context",
    body: completion({ prompt: Array(513).fill(5) }),
    code: "context_length_exceeded",
    says: "got 513 prompt tokens",
  },
  {
    name: "a prompt that fills the context and wants an answer",
    body: completion({ prompt: Array(512).fill(5), max_tokens: 1 }),
    code: "context_length_exceeded",
    says: "512 + at least 1 > 512",
  },
  {
    name: "a text longer than the context",
    body: completion({ prompt: "Once upon a time, ".repeat(120) }),
    code: "context_length_exceeded",
    says: "> 512",
  },
  {
    name: "a text that no context holds",
    body: completion({ prompt: "\n".repeat(2_000_000) }),
    code: "context_length_exceeded",
    says: "2000000 characters",
  },
  {
    name: "a conversation that no context holds",
    path: CHAT,
    body: chat({ messages: Array(6_000).fill({ role: "user", content: "" }) }),
    code: "context_length_exceeded",
    says: "6000 messages",
  },
  { name: "an unknown field", body: completion({ temprature: 1 }), code: "unknown_field", says: `"temprature"` },
  {
    name: "a tool for a model that knows none",
    path: CHAT,
    body: chat({ tools: [{ type: "function", function: { name: "f" } }] }),
    code: "unsupported_field",
  },
  { name: "half a tool", path: CHAT, body: chat({ tools: [{ type: "function" }] }), code: "invalid_parameter" },
  { name: "text for a number", body: completion({ max_tokens: "4" }), code: "invalid_parameter", says: "max_tokens" },
  { name: "an endless temperature", body: `{"prompt":"a","temperature":1e999}`, code: "invalid_parameter" },
  { name: "a negative temperature", body: completion({ temperature: -1e-9 }), code: "invalid_parameter" },
  { name: "top_p above 1", body: completion({ top_p: 1.001 }), code: "invalid_parameter" },
  { name: "min_p below 0", body: completion({ min_p: -0.1 }), code: "invalid_parameter" },
  { name: "a huge top_k", body: completion({ top_k: 2 ** 31 }), code: "invalid_parameter" },
  { name: "no repetition penalty at all", body: completion({ repetition_penalty: 0 }), code: "invalid_parameter" },
  {
    name: "a repetition penalty too small to divide by",
    body: completion({ repetition_penalty: 1e-31 }),
    code: "invalid_parameter",
    says: "repetition_penalty",
  },
  { name: "no choices", body: completion({ n: 0 }), code: "invalid_parameter" },
  { name: "half a seed", body: completion({ seed: 0.5 }), code: "invalid_parameter" },
  { name: "a seed beyond 64 bits", body: completion({ seed: 1e30 }), code: "invalid_parameter" },
  { name: "an empty stop", body: completion({ stop: "" }), code: "invalid_parameter" },
  { name: "a thousand stops", body: completion({ stop: Array(1000).fill("a") }), code: "invalid_parameter" },
  { name: "a bias of no token", body: completion({ logit_bias: { 512: 1 } }), code: "token_out_of_range" },
  { name: "a bias beyond 100", body: completion({ logit_bias: { 5: 101 } }), code: "invalid_parameter" },
  { name: "min_tokens above max_tokens", body: completion({ min_tokens: 5 }), code: "invalid_parameter" },
  { name: "nothing to do", body: completion({ max_tokens: 0 }), code: "invalid_parameter" },
  { name: "stream_options alone", body: completion({ stream_options: {} }), code: "invalid_parameter" },
  { name: "another model", body: completion({ model: "gpt" }), code: "model_not_found", status: 404 },
  { name: "another path", path: "/v1/nothing", body: {}, code: "not_found", status: 404 },
  { name: "another method", path: "/health", body: {}, code: "method_not_allowed", status: 405 },
];

/** A request's answer; the log must hold its code once, under the request's own id. */
async function provoke(server: TestServer, refusal: Refusal, headers: Record<string, string> = {}): Promise<Response> {
  const id = `bad-${expectedCodes.size}`;
  expectedCodes.set(id, refusal.code);
  const { body, path = COMPLETIONS } = refusal;
  return fetch(server.url + path, {
    method: "POST",
    headers: { "x-request-id": id, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

async function expectRefusal(
  server: TestServer,
  refusal: Refusal,
  headers: Record<string, string> = {},
): Promise<void> {
  const response = await provoke(server, refusal, headers);
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  expect({ status: response.status, code: error.code }).toEqual({ status: refusal.status ?? 400, code: refusal.code });
  expect(error.message).toMatch(/expected .*got /);
  expect(error.message).toContain(refusal.says ?? "");
}

/** Opens a connection that never complains and writes to it. */
function write(server: TestServer, text: string): Socket {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.on("error", () => {});
  socket.write(text);
  return socket;
}

function rawRequest(body: object, headers = ""): string {
  const text = JSON.stringify(body);
  return `POST ${COMPLETIONS} HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

/** Reads until `isEnough` of what came, or the connection's end. */
async function readUntil(socket: Socket, isEnough: (text: string) => boolean): Promise<string> {
  let text = "";
  for await (const chunk of socket) {
    text += String(chunk);
    if (isEnough(text)) break;
  }
  socket.destroy();
  return text;
}

async function gauges(server: TestServer): Promise<Record<string, number>> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const names = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"];
  return Object.fromEntries(
    names.map((name) => [name, Number(new RegExp(`^millrace:${name}{.*} (.*)$`, "m").exec(text)?.[1])]),
  );
}

const STORY = { prompt: "Once upon a time", max_tokens: 150, temperature: 0.8, seed: 7, stream: true };

async function streamedText(url: string): Promise<string> {
  const response = await fetch(url + COMPLETIONS, { method: "POST", body: JSON.stringify(STORY) });
  const events = (await response.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
  return events
    .map((event) => (JSON.parse(event.slice(6)) as { choices: [{ text: string }] }).choices[0].text)
    .join("");
}

/** Streams the same story again and again, and says at the end how often it came out as it did alone. */
async function startCompanion(url: string): Promise<typeof companion> {
  const alone = await streamedText(url);
  expect(alone.length).toBeGreaterThan(200);
  let isStopping = false;
  const running = (async () => {
    let numEqual = 0;
    for (; !isStopping; numEqual++) expect(await streamedText(url)).toBe(alone);
    return numEqual;
  })();
  running.catch(() => {});
  return {
    stop: () => {
      isStopping = true;
      return running;
    },
  };
}

beforeAll(async () => {
  const templatePath = join(folder, "template.jinja");
  writeFileSync(templatePath, "{% for message in messages %}{{ message.content }}{% endfor %}");
  [roomy, tiny] = await Promise.all([
    startTestServer([...STORIES, "--chat-template", templatePath]),
    startTestServer([...STORIES, ...TINY, "--unknown-fields", "warn", "--api-key", KEY]),
  ]);
  companion = await startCompanion(roomy.url);
}, 60_000);

afterAll(async () => {
  await Promise.all([roomy?.stop(), tiny?.stop()]);
  rmSync(folder, { recursive: true });
});

test("every invalid request is refused with its code", async () => {
  for (const refusal of REFUSALS) await expectRefusal(roomy, refusal);
});

test("OpenAI's fields without effect and extreme but valid values are accepted", async () => {
  const inert = { user: "u", store: true, metadata: { a: [{}] }, service_tier: "auto", parallel_tool_calls: true };
  const legal = [
    inert,
    { temperature: 1e-300 },
    { temperature: 2, top_p: 1e-12, top_k: 1e9, min_p: 1 },
    { top_p: 0, top_k: -1, seed: -(2 ** 53) },
    { logit_bias: Object.fromEntries(Array.from({ length: 512 }, (_, id) => [id, id % 2 ? 100 : -100])) },
    { presence_penalty: 2, frequency_penalty: -2, repetition_penalty: 1e-6 },
    { prompt: "\ud800\0", echo: true, logprobs: 20, n: 2, min_tokens: 4 },
    { max_tokens: 0, echo: true, logprobs: 0, prompt: [[1], [2, 3]] },
    { prompt: Array(512).fill(5), max_tokens: 0, echo: true },
    { max_tokens: 2 ** 31 - 1, stop: ["a", "e", "."] },
  ];
  for (const fields of legal) await post(roomy.url + COMPLETIONS, completion(fields));
});

test("missing and wrong keys are refused, the right key is accepted", async () => {
  const refusal: Refusal = { name: "no key", body: completion({}), code: "invalid_api_key", status: 401 };
  for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: KEY }]) {
    await expectRefusal(tiny, refusal, headers as Record<string, string>);
  }
  const response = await provoke(
    tiny,
    { name: "unknown but only warned of", body: completion({ colour: "red" }), code: "unknown_field" },
    { authorization: `Bearer ${KEY}` },
  );
  expect(response.status).toBe(200);
});

test("requests that never fit in the KV memory are refused with the calculation; requests that just fit are served", async () => {
  const authorization = { authorization: `Bearer ${KEY}` };
  const tooLarge: readonly Refusal[] = [
    {
      name: "prompt",
      body: completion({ prompt: Array(129).fill(5) }),
      code: "kv_capacity_exceeded",
      says: "= 128 tokens",
    },
    {
      name: "prompt and answer",
      body: completion({ prompt: Array(100).fill(5), max_tokens: 30 }),
      code: "kv_capacity_exceeded",
      says: "100 + 30 = 130 tokens (9 blocks)",
    },
    { name: "choices", body: completion({ n: 5 }), code: "invalid_parameter", says: "at most 4" },
    { name: "prompts", body: completion({ prompt: Array(5).fill("a") }), code: "invalid_parameter", says: "at most 4" },
  ];
  for (const refusal of tooLarge) await expectRefusal(tiny, refusal, authorization);
  const fitting = { prompt: Array(100).fill(5), max_tokens: 29, n: 4, ignore_eos: true };
  const response = await fetch(tiny.url + COMPLETIONS, {
    method: "POST",
    headers: authorization,
    body: JSON.stringify(fitting),
  });
  expect(await response.json()).toMatchObject({ usage: { completion_tokens: 4 * 29 } });
});

test("requests wait for seats, and beyond the queue get 429 with a retry time", async () => {
  const full = { prompt: Array(20).fill(5), max_tokens: 100, n: 4, ignore_eos: true };
  expectedCodes.set("over-the-queue", "queue_full");
  const authorization = `Authorization: Bearer ${KEY}\r\n`;
  // In one packet, so that the second is there while the first runs.
  const both = rawRequest(full, authorization) + rawRequest(full, `${authorization}X-Request-Id: over-the-queue\r\n`);
  const text = await readUntil(write(tiny, both), (soFar) => soFar.includes("queue_full"));
  expect(text).toMatch(/^HTTP\/1\.1 200 .*"completion_tokens":400.*HTTP\/1\.1 429 /s);
  expect(Number(/^retry-after: (\d+)\r$/im.exec(text)?.[1])).toBeGreaterThanOrEqual(1);
});

test("a body over the limit is refused before it is read", async () => {
  expectedCodes.set("too-large", "body_too_large");
  const head = `POST ${COMPLETIONS} HTTP/1.1\r\nHost: x\r\nX-Request-Id: too-large\r\nContent-Length: 99999999\r\n\r\n{`;
  const text = await readUntil(write(roomy, head), (soFar) => soFar.includes("body_too_large"));
  expect(text).toMatch(/^HTTP\/1\.1 413 /);
});

test("slow, half-closed, disconnecting and non-HTTP clients harm no other client", async () => {
  const long = { prompt: Array(60).fill(5), max_tokens: 60, ignore_eos: true, n: 2, stream: true };
  const slow = [rawRequest(long).slice(0, -3), "POST /v1/completions HTTP/1.1\r\nHo"].map((part) => write(roomy, part));
  for (let i = 0; i < 40; i++) {
    const server = i % 2 === 0 ? roomy : tiny;
    const socket = write(server, rawRequest(long, `Authorization: Bearer ${KEY}\r\n`));
    if (i % 8 === 7) socket.end();
    // At once, while queued or in the prompt, or after the first tokens.
    else if (i % 4 < 2) setTimeout(() => socket.destroy(), i);
    else socket.once("data", () => socket.destroy());
  }
  const garbage = await readUntil(write(roomy, "\0\x01 what?\r\n\r\n"), () => false);
  expect(garbage).toMatch(/^HTTP\/1\.1 400 .*"code":"invalid_request"/s);
  await post(roomy.url + COMPLETIONS, completion({}));
  for (const socket of slow) socket.destroy();
});

test("in the end no request is left, all processes live, the other stream was never affected, and the log has each refusal once", async () => {
  expect(await companion.stop()).toBeGreaterThan(0);
  for (const server of [roomy, tiny]) {
    const none = { num_requests_running: 0, num_requests_waiting: 0, kv_cache_usage_perc: 0 };
    await expect.poll(() => gauges(server), { timeout: 10_000 }).toEqual(none);
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({ status: "ok" });
    expect(server.process.exitCode).toBeNull();
    // Until then the end of its log may still be on its way.
    expect(await server.stop()).toBe(0);
  }
  const logged = new Map<string, string[]>();
  for (const line of `${roomy.stderr()}${tiny.stderr()}`.split("\n")) {
    if (!line.startsWith("{")) continue;
    const { requestId, code, status } = JSON.parse(line) as { requestId?: string; code?: string; status?: number };
    expect(status ?? 0).toBeLessThan(500);
    if (requestId !== undefined && expectedCodes.has(requestId)) {
      logged.set(requestId, [...(logged.get(requestId) ?? []), String(code)]);
    }
  }
  expect(Object.fromEntries(logged)).toEqual(
    Object.fromEntries(Array.from(expectedCodes, ([id, code]) => [id, [code]])),
  );
});
