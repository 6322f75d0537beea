/** What goes wrong with paid APIs: keys that are refused or used up, hostile answers, requests that a provider has no words for. No key is ever shown. */

import { spawnSync } from "node:child_process";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { awsFrame, startBedrockServer } from "../../../test/helpers/providers/bedrock-server.js";
import { type Gateway, startGateway } from "../../../test/helpers/providers/gateway.js";
import { googleLimited, startGoogleServer } from "../../../test/helpers/providers/google-server.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import type { ProviderAsked, ProviderServer, Reply } from "../../../test/helpers/providers/provider-server.js";

const KEY = "sk-test-0123456789abcdef";
const OTHER_KEY = "sk-test-fedcba9876543210";
const SECRET = "wJalrXUtnFEMI/K7MDENG";

const closing: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function kept<T extends AsyncDisposable>(starting: Promise<T>): Promise<T> {
  const started = await starting;
  closing.push(started);
  return started;
}

const gatewayOf = (models: readonly object[], more: object = {}): Promise<Gateway> =>
  kept(startGateway({ models, ...more }));
const openaiModel = (url: string, keys: readonly string[] = [KEY], more: object = {}) => ({
  name: "m",
  engine: "openai",
  attach: keys.map((key) => ({ url: `${url}/v1`, "api-key": key })),
  ...more,
});
const anthropicModel = (url: string, keys: readonly string[] = [KEY], more: object = {}) => ({
  name: "m",
  engine: "anthropic",
  attach: keys.map((key) => ({ url, "api-key": key })),
  ...more,
});

const chat = (more: object = {}) => ({ model: "m", messages: [{ role: "user", content: "hello" }], ...more });
const messages = (more: object = {}) => ({ ...chat({ max_tokens: 50 }), ...more });
const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";

/** Fails if a key, or a part that would do, is in what the gateway said or logged. */
function expectNoKeys(gateway: Gateway, ...said: readonly string[]): void {
  for (const text of [...gateway.log, ...said]) {
    for (const key of [KEY, OTHER_KEY, SECRET]) {
      expect(text).not.toContain(key);
      expect(text).not.toContain(key.slice(0, 8));
    }
  }
}

const sse = (...events: readonly object[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
const streamOf = (body: string | readonly (string | Buffer)[], type = "text/event-stream"): Reply => ({
  headers: { "content-type": type },
  body: typeof body === "string" ? [body] : body,
});
const delta = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
});

describe("what is sent", () => {
  test("nothing before the first request, and of the client's headers only those of the API", async () => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)], {
      "api-keys": [{ tenant: "t", key: "the-clients-key" }],
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(server.asked).toEqual([]);
    const headers = {
      "x-api-key": "the-clients-key",
      cookie: "session=1",
      "x-forwarded-for": "10.1.2.3",
      "anthropic-beta": "interleaved-thinking-2025-05-14",
      "x-session-id": "s",
    };
    expect((await gateway.post(MESSAGES, messages(), headers)).status).toBe(200);
    const sent = server.asked[0]!.headers;
    expect(sent).toMatchObject({
      "x-api-key": KEY,
      "anthropic-version": "2023-06-01",
      "anthropic-beta": headers["anthropic-beta"],
    });
    expect(Object.keys(sent).sort()).toEqual([
      "accept-encoding",
      "anthropic-beta",
      "anthropic-version",
      "connection",
      "content-length",
      "content-type",
      "host",
      "user-agent",
      "x-api-key",
    ]);
    expect(JSON.stringify(sent)).not.toContain("the-clients-key");
  });

  test("of the provider's headers, the client gets its id of the request and none of its account", async () => {
    const server = await kept(
      startOpenaiServer({
        keys: [KEY],
        headers: () => ({ "set-cookie": "__cf_bm=1", "x-ratelimit-remaining-requests": "9" }),
      }),
    );
    const gateway = await gatewayOf([openaiModel(server.url)]);
    const answer = await gateway.post(CHAT, chat());
    expect(answer.headers.get("x-millrace-upstream-request-id")).toBe("req_0f1e2d3c");
    for (const name of ["openai-organization", "set-cookie", "x-ratelimit-remaining-requests"])
      expect(answer.headers.get(name)).toBeNull();
  });

  test("redirects are not followed", async () => {
    const thief = await kept(startOpenaiServer({ keys: [KEY] }));
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push({ status: 307, headers: { location: `${thief.url}${CHAT}` }, body: {} });
    expect((await gateway.post(CHAT, chat())).status).toBe(502);
    expect(thief.asked).toEqual([]);
  });

  const options = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-subj",
    "/CN=127.0.0.1",
  ];
  const { stdout: pem, status } = spawnSync("openssl", [...options, "-keyout", "-", "-out", "-"], { encoding: "utf8" });

  test.skipIf(status !== 0)("a certificate that nobody vouches for is refused before the key is sent", async () => {
    const asked: string[] = [];
    const server = createTlsServer({ key: pem, cert: pem }, (incoming) => asked.push(incoming.url!));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const gateway = await gatewayOf([anthropicModel(`https://127.0.0.1:${port}`)]);
    expect((await gateway.post(MESSAGES, messages())).status).toBe(502);
    expect(asked).toEqual([]);
    server.close();
  });
});

describe("keys", () => {
  test("a refused key is the gateway's fault, and stays unseen in both dialects", async () => {
    const server = await kept(startOpenaiServer({ keys: ["another-key"] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    for (const [path, body] of [
      [CHAT, chat()],
      [CHAT, chat({ stream: true })],
      [MESSAGES, messages()],
    ] as const) {
      const answer = await gateway.post(path, body);
      expect(answer.status).toBe(502);
      const text = await answer.text();
      expect(text).toContain("does not accept the gateway's key");
      expectNoKeys(gateway, text);
    }
  });

  test("errors that quote keys lose them, whole and in streams", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    const quoting = {
      error: {
        message: `Key ${KEY} and Bearer ${KEY} and ${KEY.slice(0, 8)}****${KEY.slice(-4)} may not`,
        type: KEY,
        code: KEY,
        param: KEY,
      },
    };
    for (const [path, body] of [
      [CHAT, chat()],
      [MESSAGES, messages()],
    ] as const) {
      server.next.push({ status: 400, body: quoting });
      const refused = await gateway.post(path, body);
      expect(refused.status).toBe(400);
      const text = await refused.text();
      expect(text).toContain("(key)");
      server.next.push(streamOf(sse(delta("Hel"), quoting)));
      const broken = await (await gateway.post(path, { ...body, stream: true })).text();
      expect(broken).toContain("Hel");
      expect(broken).toContain("(key)");
      expectNoKeys(gateway, text, broken);
    }
  });

  test("AWS's answer to a bad signature, which quotes the request, is not shown", async () => {
    const credentials = { accessKeyId: "AKIDEXAMPLE0000", secretAccessKey: "another", region: "us-east-1" };
    const server = await kept(startBedrockServer(credentials));
    const attach = {
      url: server.url,
      "access-key-id": credentials.accessKeyId,
      "secret-access-key": SECRET,
      "aws-region": "us-east-1",
    };
    const gateway = await gatewayOf([
      { name: "m", engine: "bedrock", attach: [{ ...attach, "model-name": "anthropic.claude-x" }] },
    ]);
    const answer = await gateway.post(CHAT, chat());
    expect(answer.status).toBe(502);
    const text = await answer.text();
    expect(text).not.toContain("AWS4-HMAC");
    expectNoKeys(gateway, text);
  });

  test("429 is of the key: the other key answers, and the first is left alone until its time", async () => {
    const limited = (key: string) => key === `Bearer ${KEY}`;
    const server = await kept(startOpenaiServer({ keys: [KEY, OTHER_KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url, [KEY, OTHER_KEY])], {
      routing: { policy: "round-robin" },
    });
    // Whichever key comes first is refused.
    server.next.push({
      status: 429,
      headers: { "retry-after": "30" },
      body: { error: { message: "Rate limit reached", type: "requests", code: "rate_limit_exceeded", param: null } },
    });
    for (let i = 0; i < 6; i++) expect((await gateway.post(CHAT, chat())).status).toBe(200);
    const keys = server.asked.map(({ headers }) => headers.authorization!);
    expect(keys).toHaveLength(7);
    expect(new Set(keys.slice(1)).size).toBe(1);
    expect(limited(keys[0]!)).not.toBe(limited(keys[1]!));
  });

  test("without another key, the client gets the 429 with its time; further requests are not sent", async () => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const body = {
      type: "error",
      error: { type: "rate_limit_error", message: "This request would exceed your organization's rate limit." },
    };
    server.next.push({ status: 429, headers: { "retry-after": "17" }, body });
    const first = await gateway.post(CHAT, chat());
    expect(first.status).toBe(429);
    expect(first.headers.get("retry-after")).toBe("17");
    expect(await first.json()).toMatchObject({
      error: { type: "rate_limit_error", message: expect.stringContaining("organization's rate limit") },
    });
    const second = await gateway.post(MESSAGES, messages());
    expect(second.status).toBe(429);
    expect(Number(second.headers.get("retry-after"))).toBeGreaterThan(14);
    expect(await second.json()).toMatchObject({
      error: { type: "rate_limit_error", details: { error_code: "upstream_limited" } },
    });
    expect(server.asked).toHaveLength(1);
  });

  test("Google's pause is in the body of its 429", async () => {
    const server = await kept(startGoogleServer({ keys: [KEY, OTHER_KEY] }));
    const attach = [KEY, OTHER_KEY].map((key) => ({ url: server.url, "api-key": key, "model-name": "gemini-x" }));
    const gateway = await gatewayOf([{ name: "m", engine: "google", attach }], { routing: { policy: "round-robin" } });
    server.next.push(googleLimited(40), googleLimited(50));
    const answer = await gateway.post(CHAT, chat());
    expect(answer.status).toBe(429);
    const again = await gateway.post(CHAT, chat());
    expect(again.status).toBe(429);
    expect(Number(again.headers.get("retry-after"))).toBeGreaterThan(35);
    expect(server.asked).toHaveLength(2);
  });

  test("what is left is respected ahead: a key with nothing left gets no request until its reset", async () => {
    const headers = ({ headers: { authorization } }: ProviderAsked) =>
      authorization === `Bearer ${KEY}`
        ? { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s" }
        : { "x-ratelimit-remaining-requests": "100", "x-ratelimit-reset-requests": "1s" };
    const server = await kept(startOpenaiServer({ keys: [KEY, OTHER_KEY], headers }));
    const gateway = await gatewayOf([openaiModel(server.url, [KEY, OTHER_KEY])], {
      routing: { policy: "round-robin" },
    });
    for (let i = 0; i < 8; i++) expect((await gateway.post(CHAT, chat())).status).toBe(200);
    expect(server.asked.filter(({ headers: { authorization } }) => authorization === `Bearer ${KEY}`)).toHaveLength(1);
  });

  test("a limit that is whole in a moment is waited for", async () => {
    const server = await kept(
      startOpenaiServer({
        keys: [KEY],
        headers: () => ({ "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "300ms" }),
      }),
    );
    const gateway = await gatewayOf([openaiModel(server.url)]);
    const begin = performance.now();
    for (let i = 0; i < 2; i++) expect((await gateway.post(CHAT, chat())).status).toBe(200);
    expect(performance.now() - begin).toBeGreaterThan(280);
  });

  test("max-concurrency bounds the requests under way with a key", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const one = openaiModel(server.url);
    const gateway = await gatewayOf([{ ...one, attach: [{ ...one.attach[0], "max-concurrency": 2 }] }]);
    const [instance] = gateway.fleet.instances();
    expect(instance!.capacity.seats).toBe(2);
    const all = await Promise.all(Array.from({ length: 9 }, () => gateway.post(CHAT, chat())));
    expect(all.map(({ status }) => status)).toEqual(Array(9).fill(200));
  });
});

describe("errors in the client's dialect", () => {
  test.each([
    [400, "invalid_request_error", 400, "invalid_request_error"],
    [404, "not_found_error", 404, "invalid_request_error"],
    [413, "request_too_large", 413, "invalid_request_error"],
    [500, "api_error", 500, "server_error"],
    [529, "overloaded_error", 503, "server_error"],
  ])("Anthropic's %i %s for both clients", async (status, type, chatStatus, chatType) => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const body = { type: "error", error: { type, message: "the reason" } };
    server.next.push({ status, body }, { status, body });
    const native = await gateway.post(MESSAGES, messages());
    expect([native.status, await native.json()]).toMatchObject([
      status,
      { type: "error", error: { type, message: "anthropic: the reason" } },
    ]);
    const other = await gateway.post(CHAT, chat());
    expect([other.status, await other.json()]).toMatchObject([
      chatStatus,
      { error: { type: chatType, message: "anthropic: the reason", code: type } },
    ]);
  });

  test("OpenAI's keeps its param for its own clients", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    const refused = await gateway.post(CHAT, chat({ temperature: 3 }));
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { param: "temperature", type: "invalid_request_error" } },
    ]);
  });

  test("a page of a proxy in between is not passed on", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push({
      status: 502,
      headers: { "content-type": "text/html" },
      body: "<html>Bad gateway at 10.0.0.7</html>",
    });
    const answer = await gateway.post(CHAT, chat());
    expect(answer.status).toBe(502);
    expect(await answer.text()).not.toContain("html");
  });
});

describe("requests that a provider has no words for", () => {
  test.each([
    ["anthropic", CHAT, { seed: 7 }, "seed"],
    ["anthropic", CHAT, { n: 2 }, "n"],
    ["anthropic", CHAT, { logprobs: true }, "logprobs"],
    ["anthropic", CHAT, { presence_penalty: 1 }, "presence_penalty"],
    ["anthropic", CHAT, { temperature: 1.5 }, "temperature"],
    ["anthropic", CHAT, { response_format: { type: "json_object" } }, "response_format"],
    ["anthropic", CHAT, { logit_bias: { 5: 1 } }, "logit_bias"],
    ["openai", MESSAGES, { top_k: 5 }, "top_k"],
    ["openai", MESSAGES, { container: "c" }, "container"],
  ])("%s: %s %j is refused by name, or left out and listed", async (engine, path, fields, param) => {
    const server = await kept(
      engine === "openai" ? startOpenaiServer({ keys: [KEY] }) : startAnthropicServer({ keys: [KEY] }),
    );
    const model = (more: object) => (engine === "openai" ? openaiModel : anthropicModel)(server.url, [KEY], more);
    const gateway = await gatewayOf([{ ...model({}), name: "strict" }, model({ provider: { "drop-params": true } })]);
    const body = path === CHAT ? chat(fields) : messages(fields);
    const refused = await gateway.post(path, { ...body, model: "strict" });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain(
      `expected ${param === "temperature" ? "a temperature" : param === "response_format" ? "a json_schema" : `no ${param}`}`,
    );
    expect(server.asked).toEqual([]);
    const dropped = await gateway.post(path, body);
    expect([dropped.status, dropped.headers.get("x-millrace-dropped-params")]).toEqual([200, param]);
  });

  test("hints are left out and listed; values that mean nothing are not listed", async () => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const answer = await gateway.post(
      CHAT,
      chat({ metadata: { a: "b" }, prompt_cache_key: "k", n: 1, logprobs: false, presence_penalty: 0, store: false }),
    );
    expect([answer.status, answer.headers.get("x-millrace-dropped-params")]).toEqual([
      200,
      "metadata, prompt_cache_key",
    ]);
  });

  test("a path that the provider lacks is not found", async () => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const refused = await gateway.post("/v1/embeddings", { model: "m", input: "x" });
    expect([refused.status, await refused.json()]).toMatchObject([404, { error: { code: "not_found" } }]);
    const counted = await gateway.post("/v1/messages/count_tokens", {
      model: "m",
      messages: [{ role: "user", content: "x" }],
    });
    expect(await counted.json()).toEqual({ input_tokens: 14 });
  });
});

describe("hostile answers", () => {
  const cases: readonly (readonly [string, Reply])[] = [
    ["no JSON", { headers: { "content-type": "application/json" }, body: "{" }],
    ["another type", { headers: { "content-type": "text/html" }, body: "<html>" }],
    ["an empty object", { body: {} }],
    ["no choices", { body: { choices: [] } }],
    ["wrong types", { body: { choices: [{ message: { content: 5 } }] } }],
    ["deep nesting", { body: `{"choices":${"[".repeat(5000)}${"]".repeat(5000)}}` }],
    ["a compressed answer", { headers: { "content-encoding": "gzip" }, body: "x" }],
    [
      "too many bytes",
      {
        body: [`{"a":"`, ...Array<string>(20).fill("x".repeat(2 ** 20))],
        headers: { "content-type": "application/json" },
      },
    ],
  ];

  test.each(cases)("%s as a whole answer is upstream_failed, and another server gets the request", async (_, reply) => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push(reply);
    const answer = await gateway.post(MESSAGES, messages());
    expect([answer.status, await answer.json()]).toMatchObject([
      502,
      { error: { details: { error_code: "upstream_failed" } } },
    ]);
    const pair = await gatewayOf([openaiModel(server.url, [KEY, KEY])]);
    server.next.push(reply);
    expect((await pair.post(MESSAGES, messages())).status).toBe(200);
  });

  const long = "x".repeat(2 ** 20);
  test.each([
    ["a stream that ends early", streamOf(sse(delta("Hel")))],
    ["an event that is no JSON", streamOf(`${sse(delta("Hel"))}data: {"choices"\n\n`)],
    ["an event without end", streamOf([sse(delta("Hel")), "data: ", long, long, long, long, long])],
    ["the error of a provider", streamOf(sse(delta("Hel"), { error: { message: "the GPU fell over" } }))],
    [
      "arguments of a call that never began",
      streamOf(
        sse(delta("Hel"), {
          choices: [{ index: 0, delta: { tool_calls: [{ index: 3, function: { arguments: "{" } }] } }],
        }),
      ),
    ],
  ])("%s ends the client's stream with an error event", async (_, reply) => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push(reply);
    const text = await (await gateway.post(MESSAGES, messages({ stream: true }))).text();
    expect(text).toContain('"text":"Hel"');
    const last = text.trim().split("\n\n").at(-1)!;
    expect(last).toContain("event: error\n");
    expect(last).toContain("upstream_failed");
    expect(text).not.toContain("message_stop");
  });

  test("frames of AWS: a wrong checksum, an exception and a cut all end the stream with an error", async () => {
    const credentials = { accessKeyId: "AKIDEXAMPLE0000", secretAccessKey: SECRET, region: "us-east-1" };
    const server = await kept(startBedrockServer(credentials));
    const attach = {
      url: server.url,
      "access-key-id": credentials.accessKeyId,
      "secret-access-key": SECRET,
      "aws-region": "us-east-1",
    };
    const gateway = await gatewayOf([
      { name: "m", engine: "bedrock", attach: [{ ...attach, "model-name": "anthropic.claude-x" }] },
    ]);
    const event = (name: string, payload: object) =>
      awsFrame({ ":event-type": name, ":message-type": "event" }, payload);
    const text = event("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Hel" } });
    const wrong = Buffer.from(text);
    wrong[wrong.length - 6]! ^= 1;
    const exception = awsFrame(
      { ":exception-type": "throttlingException", ":message-type": "exception" },
      { message: "Too many tokens" },
    );
    for (const [bad, reason] of [
      [wrong, "checksum"],
      [exception, "throttlingException: Too many tokens"],
      [text.subarray(0, 20), "whole frames"],
    ] as const) {
      server.next.push(streamOf([text, bad], "application/vnd.amazon.eventstream"));
      const said = await (await gateway.post(CHAT, chat({ stream: true }))).text();
      expect(said).toContain('"content":"Hel"');
      expect(said).toContain(reason);
      expect(said).not.toContain("[DONE]");
    }
  });

  test("the client's leaving cuts the provider's stream", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push(streamOf(Array.from({ length: 100_000 }, (_, i) => sse(delta(`word ${i} `)))));
    const controller = new AbortController();
    const answer = await fetch(`${gateway.url}${MESSAGES}`, {
      method: "POST",
      body: JSON.stringify(messages({ stream: true })),
      signal: controller.signal,
    });
    await answer.body!.getReader().read();
    controller.abort();
    await expect.poll(() => server.numCut.count, { timeout: 5_000 }).toBe(1);
  });
});

describe("tenants", () => {
  test("share a paid API's cache unless the operator wants them apart, which it cannot do", async () => {
    const server: ProviderServer = await kept(startOpenaiServer({ keys: [KEY] }));
    const keys = {
      "api-keys": [
        { tenant: "a", key: "key-of-a" },
        { tenant: "b", key: "key-of-b" },
      ],
    };
    const headers = { authorization: "Bearer key-of-a" };
    const shared = await gatewayOf([openaiModel(server.url)], keys);
    expect((await shared.post(CHAT, chat(), headers)).status).toBe(200);
    expect(shared.log.join()).toContain("tenants share what the paid API caches");
    const apart = await gatewayOf([openaiModel(server.url)], { ...keys, "isolate-api-keys": true });
    const refused = await apart.post(CHAT, chat(), headers);
    expect([refused.status, await refused.json()]).toMatchObject([403, { error: { code: "isolation_unsupported" } }]);
  });
});
