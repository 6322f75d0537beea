/** Probes of servers with different abilities. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { MockServer } from "../mock/mock-server.js";
import { probeServer } from "./probe.js";

let server: Server | undefined;
afterEach(() => server?.close());

interface Habits {
  /** Path → tokens of a prompt, by its number of words or ids; absent: no such endpoint. */
  readonly paths: Readonly<Record<string, (size: number) => number>>;
  readonly takesIds?: boolean;
  readonly refuses?: string;
  readonly tokenize?: "prompt" | "content";
  /** Another answer of /tokenize. */
  readonly tokenizeBody?: string;
  /** Accepts ignore_eos without effect. */
  readonly dropsIgnoreEos?: boolean;
}

const words = (text: string) => text.split(" ").length;

async function serverWith(habits: Habits): Promise<string> {
  const { paths, takesIds = false, refuses = "", tokenize, tokenizeBody, dropsIgnoreEos = false } = habits;
  server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const answer = (status: number, value: unknown) => response.writeHead(status).end(JSON.stringify(value));
    if (request.url === "/v1/models") return answer(200, { data: [{ id: "m", max_model_len: 99 }] });
    if (request.url === "/tokenize" && tokenizeBody !== undefined) return response.end(tokenizeBody);
    const body = JSON.parse(text);
    if (request.url === "/tokenize" && tokenize !== undefined) {
      const given = body[tokenize] as string | undefined;
      // Each word is two tokens.
      return answer(200, {
        tokens: given === undefined ? [] : Array.from({ length: 2 * words(given) }, (_, i) => i % 50),
      });
    }
    const count = paths[request.url!];
    const prompt = body.prompt ?? body.messages?.[0].content;
    if (count === undefined || refuses in body || (typeof prompt !== "string" && !takesIds)) return answer(400, {});
    const size = typeof prompt === "string" ? words(prompt) : prompt.length;
    // The answer to a question ends by itself, prose continues.
    const isLong = String(prompt).includes("?") ? body.ignore_eos === true && !dropsIgnoreEos : true;
    const usage = { prompt_tokens: count(size), completion_tokens: isLong ? body.max_tokens : 1 };
    const events = [{ choices: [{ text: "x", finish_reason: isLong ? "length" : "stop" }] }, { choices: [], usage }];
    response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const address = (url: string) => ({ url, headers: {}, timeoutMs: 2000 });
const COMPLETIONS = "/v1/completions";
const CHAT = "/v1/chat/completions";

test.each([
  "prompt",
  "content",
] as const)("token ids if the server accepts them, with its overhead (tokenize by %s)", async (tokenize) => {
  const paths = { [COMPLETIONS]: (size: number) => size + 1, [CHAT]: (size: number) => 2 * size + 7 };
  const facts = await probeServer(address(await serverWith({ paths, takesIds: true, tokenize })));
  expect(facts).toMatchObject({ model: "m", hasCompletions: true, hasChat: true, ignoresEos: true, maxModelLen: 99 });
  expect(facts.tokenIds).toHaveLength(50);
  expect(facts).toMatchObject({ promptOverhead: 1, chatOverhead: 7, tokensPerWord: 2, hasJsonMode: true });
});

test("text otherwise, with tokens per word from the usage of two prompts", async () => {
  const paths = { [COMPLETIONS]: (size: number) => 1.25 * size + 3 };
  const facts = await probeServer(address(await serverWith({ paths })));
  expect(facts).toMatchObject({
    tokenIds: [],
    hasChat: false,
    promptOverhead: 3,
    tokensPerWord: 1.25,
    chatOverhead: 0,
  });
});

test("a chat alone, without ignore_eos", async () => {
  const paths = { [CHAT]: (size: number) => size + 12 };
  const facts = await probeServer(address(await serverWith({ paths, refuses: "ignore_eos" })));
  expect(facts).toMatchObject({ hasCompletions: false, hasChat: true, ignoresEos: false, chatOverhead: 12 });
});

test.each([
  COMPLETIONS,
  CHAT,
])("a server that accepts ignore_eos without effect counts as not supporting it (%s)", async (path) => {
  const paths = { [path]: (size: number) => size };
  const drops = await probeServer(address(await serverWith({ paths, dropsIgnoreEos: true })));
  expect(drops.ignoresEos).toBe(false);
});

test.each([
  "<!doctype html>",
  '{"tokens":null}',
  "null",
  '{"tokens":["a"]}',
])("an answer of /tokenize without ids, such as %s, does not count as a tokenizer", async (tokenizeBody) => {
  const paths = { [COMPLETIONS]: (size: number) => size };
  const facts = await probeServer(address(await serverWith({ paths, takesIds: true, tokenizeBody })));
  expect(facts).toMatchObject({ tokenIds: [], tokensPerWord: 1, ignoresEos: true });
});

test("a stopped probe does not wait for the current answer", async () => {
  const stopping = new AbortController();
  const paths = {
    [COMPLETIONS]: (size: number) => {
      stopping.abort();
      return size;
    },
  };
  const probing = probeServer(address(await serverWith({ paths })), stopping.signal);
  await expect(probing).rejects.toMatchObject({ code: "peer_failed" });
});

test("an unusable server is an error that contains its answer", async () => {
  await expect(probeServer(address("http://127.0.0.1:9"))).rejects.toMatchObject({ code: "peer_failed" });
  await expect(probeServer(address(await serverWith({ paths: {} })))).rejects.toThrow(/completions: 400/);
});

test("the self-test's facts equal a probe of the mock", async () => {
  const port = await new MockServer({ ttftMs: 1, tpotMs: 0.1, tokensPerChunk: 1 }).listen();
  const facts = await probeServer(address(`http://127.0.0.1:${port}`));
  expect(facts).toMatchObject({
    model: "mock",
    hasCompletions: true,
    hasChat: true,
    ignoresEos: true,
    tokensPerWord: 1,
  });
  expect(facts).toMatchObject({ promptOverhead: 0, chatOverhead: 4 });
});

test.each([
  [{}, "401 from /v1/models without a key"],
  [{ authorization: "Bearer wrong" }, "401 from /v1/models for the key that was sent"],
])("with headers %j, a refused key is reported differently from a server without models", async (headers, got) => {
  server = createServer((_, response) => void response.writeHead(401).end("{}"));
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(probeServer({ ...address(url), headers, model: "m" })).rejects.toMatchObject({
    code: "peer_failed",
    message: expect.stringContaining(got),
    hint: expect.stringContaining("--api-key"),
  });
});
