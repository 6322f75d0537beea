/** Keys of paid APIs: the requests that carry them, the messages about them, and the rest for one that is used up. */
import { spawnSync } from "node:child_process";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { startBedrockServer } from "../../../test/helpers/providers/bedrock-server.js";
import { googleLimited, startGoogleServer } from "../../../test/helpers/providers/google-server.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import {
  anthropicModel,
  CHAT,
  chat,
  closeAll,
  delta,
  expectNoKeys,
  gatewayOf,
  KEY,
  kept,
  MESSAGES,
  messages,
  OTHER_KEY,
  openaiModel,
  SECRET,
  sse,
  streamOf,
} from "../../../test/helpers/providers/paid-models.js";
import type { ProviderAsked, ProviderServer } from "../../../test/helpers/providers/provider-server.js";

afterEach(closeAll);

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
    const said = gateway.log.filter((line) => line.includes("the provider does not accept the gateway's key"));
    expect(said).toEqual([expect.stringMatching(/"instance":"[^"]+".*"status":401/)]);
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

  test("answers with status 200 that quote keys lose them: errors, texts, headers", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    const masked = `${KEY.slice(0, 8)}****${KEY.slice(-4)}`;
    const headers = { "content-type": "application/json", "x-request-id": KEY };
    const told = { choices: [{ index: 0, message: { role: "assistant", content: KEY }, finish_reason: "stop" }] };
    for (const body of [{ error: { message: `Incorrect API key provided: ${KEY}, ${masked}` } }, told]) {
      server.next.push({ status: 200, headers, body });
      const answer = await gateway.post(CHAT, chat());
      const text = await answer.text();
      expect([answer.status, text.includes("(key)")]).toEqual([200, true]);
      expectNoKeys(gateway, text, JSON.stringify([...answer.headers]));
    }
    server.next.push({ status: 200, headers, body: told });
    const translated = await (await gateway.post(MESSAGES, messages())).text();
    server.next.push(streamOf(sse(delta(`of ${KEY}`), delta("", "stop"))));
    const streamed = await (await gateway.post(CHAT, chat({ stream: true }))).text();
    expect([translated.includes("(key)"), streamed.includes("of (key)")]).toEqual([true, true]);
    expectNoKeys(gateway, translated, streamed);
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
    // The first key is refused, whichever it is.
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
