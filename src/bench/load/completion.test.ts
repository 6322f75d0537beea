/** One request to servers with every kind of answer. */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { afterEach, expect, test } from "vitest";
import { complete } from "./completion.js";
import { LoopWatch } from "./loop-watch.js";

let server: Server;
let pool: Pool;
afterEach(async () => {
  await pool.destroy();
  server.close();
});

const now = () => performance.now();
const TURN = { path: "/v1/chat/completions", body: "{}", numTokensAsked: undefined };

async function answered(answer: (response: ServerResponse) => void, turn = TURN as Parameters<typeof complete>[2]) {
  server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    headersTimeout: 300,
    bodyTimeout: 300,
  });
  const connection = { pool, basePath: "", headers: {}, now, watch: new LoopWatch(now) };
  return complete(connection, { session: 3, turn: 1, intendedMs: now() }, turn);
}

const events = (...all: unknown[]) => all.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
const delta = (value: object, finish_reason: string | null = null) => ({ choices: [{ delta: value, finish_reason }] });
const USAGE = {
  choices: [],
  usage: { prompt_tokens: 9, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 8 } },
};

test("tokens are counted from usage, chunks are arrivals with tokens, and the answer begins after the reasoning", async () => {
  const { record, answer } = await answered(async (response) => {
    const pause = () => new Promise((resolve) => setTimeout(resolve, 30));
    // An event that only has a role does not count as a token.
    response.write(events(delta({ role: "assistant", content: "" })));
    await pause();
    response.write(events(delta({ reasoning_content: "hm" }), delta({ reasoning_content: "m" })));
    await pause();
    response.write(events(delta({ content: "yes" })));
    await pause();
    response.end(`${events(delta({}, "stop"), USAGE)}data: [DONE]\n\n`);
  });
  expect(answer).toBe("yes");
  expect(record).toMatchObject({
    session: 3,
    turn: 1,
    numPromptTokens: 9,
    numCachedTokens: 8,
    numOutputTokens: 5,
    finishReason: "stop",
    failure: undefined,
  });
  const [first, second] = record.chunkAtMs;
  expect(record.chunkAtMs).toHaveLength(2);
  expect(first! - record.sentMs).toBeGreaterThan(25);
  expect(record.answerAtMs).toBe(second);
  expect(record.lastMs - second!).toBeGreaterThan(25);
  expect(record.sentMs).toBeGreaterThanOrEqual(record.intendedMs);
});

const text = (value: string, finish_reason: string | null = null) => ({ choices: [{ text: value, finish_reason }] });

test.each([
  ["status", 429, '{"error":"slow down"}', '429: {"error":"slow down"}'],
  ["broken", 200, events(text("a")), "without a finish_reason"],
  ["broken", 200, events(text("a"), { error: { message: "out of memory" } }), "out of memory"],
  ["broken", 200, "data: {nonsense\n\n", "without valid JSON: {nonsense"],
  ["usage", 200, events(text("a", "stop")), "no usage.completion_tokens"],
  ["length", 200, events(text("a", "stop"), USAGE), "expected 7 tokens, got 5, finish_reason stop"],
] as const)("%s: an answer that is none is a failed record", async (kind, status, body, detail) => {
  const turn = { ...TURN, numTokensAsked: kind === "length" ? 7 : undefined };
  const { record } = await answered((response) => response.writeHead(status).end(body), turn);
  expect(record.failure).toEqual({ kind, detail: expect.stringContaining(detail) });
});

const VECTORS = { ...TURN, path: "/v1/embeddings", numVectorsAsked: 2 };
const vectorsOf = (...embeddings: unknown[]) =>
  JSON.stringify({ data: embeddings.map((embedding) => ({ embedding })), usage: { prompt_tokens: 9 } });

test("vectors arrive with the answer's last byte", async () => {
  const { record } = await answered(async (response) => {
    const body = vectorsOf([1, 2], [3, 4]);
    response.write(body.slice(0, 20));
    await new Promise((resolve) => setTimeout(resolve, 30));
    response.end(body.slice(20));
  }, VECTORS);
  expect(record).toMatchObject({ numPromptTokens: 9, numOutputTokens: 2, failure: undefined });
  expect(record.chunkAtMs).toEqual([record.lastMs]);
  expect(record.lastMs - record.sentMs).toBeGreaterThan(25);
});

test.each([
  ["status", 429, '{"error":"slow down"}', '429: {"error":"slow down"}'],
  ["broken", 200, "{nonsense", "without valid JSON: {nonsense"],
  ["broken", 200, '{"data":[],"usage":{}}', "usage.prompt_tokens"],
  ["broken", 200, vectorsOf("AACAPw=="), "data[0].embedding"],
  ["length", 200, vectorsOf([1]), "expected 2 vectors, got 1"],
] as const)("%s: an answer without the vectors asked for is a failed record", async (kind, status, body, detail) => {
  const { record } = await answered((response) => response.writeHead(status).end(body), VECTORS);
  expect(record.failure).toEqual({ kind, detail: expect.stringContaining(detail) });
});

test("a closed connection is a broken answer, silence is a timeout, and a missing server is a connection failure", async () => {
  const cut = await answered((response) => {
    response.write(events(text("a")));
    setTimeout(() => response.destroy(), 20);
  });
  expect(cut.record).toMatchObject({ failure: { kind: "broken" }, chunkAtMs: [expect.any(Number)] });
  await pool.destroy();
  server.closeAllConnections();
  server.close();
  const silent = await answered(() => {});
  expect(silent.record.failure).toMatchObject({ kind: "timeout" });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  const connection = { pool, basePath: "", headers: {}, now, watch: new LoopWatch(now) };
  const { record } = await complete(connection, { session: 0, turn: 0, intendedMs: 5 }, TURN);
  expect(record).toMatchObject({ failure: { kind: "connect" }, sentMs: 5, lastMs: 5, chunkAtMs: [] });
});
