import { createHash } from "node:crypto";
import { connect } from "node:net";
import { request } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import { upstreamOf } from "../../../test/helpers/fleet-pool.js";
import {
  answerJson,
  beginStream,
  type FleetOptions,
  refusalOf,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "../../../test/helpers/stand-in.js";
import { pagePolicy } from "../../core/cors.js";

let fleet: TestFleet;
afterEach(() => fleet.stop());

const start = async (behaviours: Parameters<typeof startFleet>[0], options?: FleetOptions) => {
  fleet = await startFleet(behaviours, options);
  return fleet;
};
const ok = answerJson({ ok: true });

test("body, path, query and headers reach the instance; status, headers and body come back", async () => {
  const { post, standIns } = await start([
    (_, outgoing) => {
      outgoing.writeHead(418, { "X-Engine": "e", Connection: "close, X-Hop", "X-Hop": "1" });
      outgoing.end("short and stout");
    },
  ]);
  const body = `{"model":"m",  "messages":[], "seed": 12345678901234567890}`;
  const headers = {
    Authorization: "Bearer k",
    "X-Request-Id": "mine",
    "X-Own": "2",
    "Content-Type": "application/json",
  };
  const response = await post("/v1/chat/completions?x=1", body, { headers });
  expect([response.status, await response.text()]).toEqual([418, "short and stout"]);
  expect(response.headers.get("x-engine")).toBe("e");
  expect(response.headers.get("x-hop")).toBeNull();
  expect(response.headers.get("x-request-id")).toBe("mine");
  const [received] = standIns[0]!.received;
  expect([received!.path, received!.text]).toEqual(["/v1/chat/completions?x=1", body]);
  expect(received!.headers).toMatchObject({ authorization: "Bearer k", "x-request-id": "mine", "x-own": "2" });
  expect(received!.headers["accept-encoding"]).toBe("identity");
});

test("a stream is passed on byte for byte and event by event", async () => {
  let more = () => {};
  const { post, watched } = await start([
    (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write(sse({ n: 1 }));
      more = () => {
        outgoing.write(sse({ n: 2 }));
        outgoing.end(sse("[DONE]"));
      };
    },
  ]);
  const response = await post("/v1/completions", { model: "m", prompt: "x", stream: true });
  const reader = response.body!.getReader();
  const decode = (bytes: Uint8Array | undefined) => Buffer.from(bytes!).toString();
  expect(decode((await reader.read()).value)).toBe(sse({ n: 1 }));
  more();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) rest += decode(part.value);
  expect(rest).toBe(sse({ n: 2 }) + sse("[DONE]"));
  await until(() => watched.ended.length === 1);
  expect(watched.ended).toEqual([{ outcome: "answered", status: 200 }]);
});

test("an instance's own model name and key replace the client's", async () => {
  const { post, standIns, pool } = await start([ok]);
  const { url } = standIns[0]!;
  pool.change("a", { target: { url, apiKey: "secret", modelName: "org/real" } });
  await post("/v1/chat/completions", { model: "m", messages: [] }, { headers: { "x-api-key": "client's" } });
  const [received] = standIns[0]!.received;
  expect(received!.body).toEqual({ model: "org/real", messages: [] });
  expect(received!.headers.authorization).toBe("Bearer secret");
  expect(received!.headers).not.toHaveProperty("x-api-key");
});

test("clients' keys are not sent to instances", async () => {
  const { post, standIns } = await start([ok], { upstream: { engine: "openai" } });
  await post("/v1/chat/completions", { model: "m" }, { headers: { Authorization: "Bearer client's" } });
  expect(standIns[0]!.received[0]!.headers).not.toHaveProperty("authorization");
});

test("millrace instances get a seed if the request has none, others do not", async () => {
  const { post, standIns, pool } = await start([ok, ok]);
  pool.change("b", { engine: "millrace" });
  for (let i = 0; i < 2; i++) await post("/v1/completions", { model: "m", prompt: "x" });
  await post("/v1/completions", { model: "m", prompt: "x", seed: 7 });
  await post("/v1/completions", { model: "m", prompt: "x", seed: 7 });
  await post("/v1/embeddings", { model: "m", input: "x" });
  await post("/v1/embeddings", { model: "m", input: "x" });
  const [vllm, own] = standIns.map(({ received }) => received.map(({ body }) => body.seed));
  expect(vllm).toEqual([undefined, 7, undefined]);
  expect(own).toEqual([expect.any(Number), 7, undefined]);
  expect(Number.isSafeInteger(own![0])).toBe(true);
});

test("a fleet of one model accepts requests that name none", async () => {
  const { post } = await start([ok]);
  expect((await post("/v1/completions", { prompt: "x" })).status).toBe(200);
});

test("health lists each model once, whatever its aliases", async () => {
  const modelOf = (name: string) => (name === "alias" ? "m" : name);
  fleet = await startFleet([ok], { proxy: { modelOf } });
  fleet.pool.add(upstreamOf("alias of a", { model: "alias" }));
  const health = await (await fetch(`${fleet.proxy.url}/health`)).json();
  expect(health).toEqual({ status: "ok", models: [{ model: "m", instances: { ready: 1 } }] });
  // An instance that is late is not gone: requests wait for it.
  fleet.pool.change("a", { state: "suspect", isComing: true });
  const doubted = await fetch(`${fleet.proxy.url}/health`);
  expect([doubted.status, await doubted.json()]).toMatchObject([200, { status: "degraded" }]);
});

test("models and health", async () => {
  const onDemand = new Set<string>();
  const { proxy, pool } = await start([ok, ok], {
    proxy: { demand: () => true, startsOnDemand: (model) => onDemand.has(model) },
  });
  const get = async (path: string) => {
    const response = await fetch(`${proxy.url}${path}`);
    return [response.status, await response.json()];
  };
  expect(await get("/v1/models")).toMatchObject([200, { object: "list", data: [{ id: "m", object: "model" }] }]);
  expect(await get("/v1/models/m")).toMatchObject([200, { id: "m" }]);
  expect((await get("/v1/models/m"))[1]).not.toHaveProperty("max_model_len");
  const unknown = { seats: undefined, kvTokens: undefined, blockSize: undefined };
  pool.change("a", { capacity: { ...unknown, maxModelLen: 4096 } });
  pool.change("b", { capacity: { ...unknown, maxModelLen: 2048 } });
  expect(await get("/v1/models")).toMatchObject([200, { data: [{ id: "m", max_model_len: 2048 }] }]);
  expect(await get("/v1/models/m")).toMatchObject([200, { id: "m", max_model_len: 2048 }]);
  expect(await get("/v1/models/n")).toMatchObject([404, { error: { code: "model_not_found" } }]);
  const claude = await fetch(`${fleet.proxy.url}/v1/models/n`, { headers: { "anthropic-version": "2023-06-01" } });
  expect([claude.headers.has("request-id"), await claude.json()]).toMatchObject([
    true,
    { error: { type: "not_found_error" } },
  ]);
  expect(await get("/health")).toMatchObject([
    200,
    { status: "ok", models: [{ model: "m", instances: { ready: 2 } }] },
  ]);
  pool.change("a", { state: "failed" });
  pool.change("b", { state: "starting" });
  expect(await get("/health")).toMatchObject([503, { status: "unavailable" }]);
  pool.add(upstreamOf("c", { model: "n", state: "stopped" }));
  onDemand.add("n");
  expect(await get("/health")).toMatchObject([200, { status: "degraded" }]);
  onDemand.add("m");
  expect(await get("/health")).toMatchObject([200, { status: "ok" }]);
});

describe("pages of other origins", () => {
  const preflight = {
    method: "OPTIONS",
    headers: {
      Origin: "http://page",
      "Access-Control-Request-Method": "POST",
      "Access-Control-Request-Headers": "x-a",
    },
  };
  const allowsAll = answerJson({ ok: true });

  test("may send requests, including streams, and read the headers that they need", async () => {
    const { proxy, post } = await start([
      (_, outgoing) => {
        outgoing.setHeader("Access-Control-Allow-Origin", "http://engine");
        allowsAll(_, outgoing);
      },
    ]);
    const asked = await fetch(`${proxy.url}/v1/completions`, preflight);
    expect([asked.status, asked.headers.get("access-control-allow-headers")]).toEqual([204, "x-a"]);
    const response = await post("/v1/completions", { model: "m" }, { headers: { Origin: "http://page" } });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-expose-headers")).toContain("X-Request-Id");
  });

  test("are refused if only others are configured", async () => {
    const { proxy } = await start([ok], {
      proxy: { pages: () => ({ origins: ["http://own"], refusesOthers: false, listensOn: "127.0.0.1" }) },
    });
    const asked = await fetch(`${proxy.url}/v1/completions`, preflight);
    expect(asked.headers.get("access-control-allow-origin")).toBeNull();
  });
});

test.each([
  ["/v1/chat/completions", undefined],
  ["/v1/completions", "text/plain;charset=UTF-8"],
  ["/v1/messages", "application/x-www-form-urlencoded"],
  ["/v1/rerank", "application/json; charset=utf-8"],
])("JSON for %s is called JSON to the engine, where the client calls it %s", async (path, contentType) => {
  const { proxy, standIns } = await start([ok]);
  const headers = contentType === undefined ? {} : { "content-type": contentType };
  const { statusCode, body } = await request(proxy.url + path, { method: "POST", headers, body: '{"model":"m"}' });
  await body.dump();
  expect([statusCode, standIns[0]!.received[0]!.headers["content-type"]]).toEqual([200, "application/json"]);
});

test("paths of other handlers are passed on", async () => {
  const { proxy } = await start([ok], {
    proxy: {
      handleOther: ({ url }, outgoing) => {
        if (url !== "/metrics") return false;
        outgoing.end("up 1");
        return true;
      },
    },
  });
  expect(await (await fetch(`${proxy.url}/metrics`)).text()).toBe("up 1");
  expect((await fetch(`${proxy.url}/metric`)).status).toBe(404);
});

test("draining finishes running requests and refuses new ones", async () => {
  let finish = () => {};
  const { proxy, post, standIns } = await start([
    (_, outgoing) => {
      finish = () => outgoing.end("{}");
    },
  ]);
  const running = post("/v1/completions", { model: "m" });
  await until(() => standIns[0]!.received.length === 1);
  const drained = proxy.drain();
  expect(await refusalOf(await post("/v1/completions", { model: "m" }))).toEqual([503, "shutting_down"]);
  finish();
  expect(await (await running).text()).toBe("{}");
  await drained;
  await expect(post("/v1/completions", { model: "m" })).rejects.toThrow();
});

test("the token usage of a complete answer is observed, if the request generates tokens", async () => {
  const { post, watched } = await start([answerJson({ usage: { prompt_tokens: 3, completion_tokens: 2 } })]);
  for (const path of ["/v1/completions", "/v1/embeddings", "/v1/rerank"]) await post(path, { model: "m" });
  await until(() => watched.ended.length === 3);
  const usage = { inputTokens: 3, outputTokens: 2 };
  expect(watched.used).toEqual([usage, usage]);
});

describe("an isolated tenant", () => {
  const scope = "0123456789abcdef0123456789abcdef";
  const authorize = () => ({ tenant: "t", cacheScope: scope });
  const body = { model: "m", prompt: "p" };

  test("is sent to millrace's engine in a header that clients cannot set", async () => {
    const { post, standIns } = await start([ok], { upstream: { engine: "millrace" }, proxy: { authorize } });
    await post("/v1/messages", body, { headers: { "X-Millrace-Cache-Scope": "f".repeat(32) } });
    expect(standIns[0]!.received[0]!.headers["x-millrace-cache-scope"]).toBe(scope);
  });

  test("is sent in cache_salt to engines that support it, combined with the client's own salt", async () => {
    const { post, standIns } = await start([ok], { proxy: { authorize } });
    await post("/v1/completions", body);
    await post("/v1/chat/completions", { ...body, cache_salt: "own" });
    const salts = standIns[0]!.received.map(({ text }) => JSON.parse(text).cache_salt);
    const hashed = (salt: string) => createHash("sha256").update(salt).digest("hex");
    expect(salts).toEqual([hashed(`${scope}:`), hashed(`${scope}:own`)]);
  });

  test("is not sent if all tenants share prefixes", async () => {
    const { post, standIns } = await start([ok], { upstream: { engine: "millrace" } });
    await post("/v1/completions", body, { headers: { "X-Millrace-Cache-Scope": scope } });
    expect(standIns[0]!.received[0]!.headers).not.toHaveProperty("x-millrace-cache-scope");
    expect(JSON.parse(standIns[0]!.received[0]!.text)).not.toHaveProperty("cache_salt");
  });
});

test.each(["POST", "OPTIONS"])("a %s with two Host headers is refused before anything is sent", async (method) => {
  const { proxy, standIns } = await start([ok]);
  const head = `${method} /v1/completions HTTP/1.1\r\nHost: a\r\nhOST: a\r\nOrigin: http://p\r\nAccess-Control-Request-Method: POST`;
  const socket = connect(proxy.port, "127.0.0.1", () => socket.write(`${head}\r\nContent-Length: 2\r\n\r\n{}`));
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  expect(text).toMatch(/^HTTP\/1\.1 400 .*expected one Host header, got 2.*"invalid_request"/s);
  expect(standIns[0]!.received).toEqual([]);
});

test("a page of a refused origin is refused before anything is read or sent, for any request", async () => {
  const pages = () => pagePolicy(undefined, false, "127.0.0.1");
  const { post, proxy, standIns } = await start([ok], { proxy: { pages } });
  const simple = { headers: { Origin: "http://evil.example", "Content-Type": "text/plain" } };
  expect(await refusalOf(await post("/v1/completions", { model: "m" }, simple))).toEqual([403, "forbidden"]);
  expect((await fetch(`${proxy.url}/v1/models`, simple)).status).toBe(403);
  expect(standIns[0]!.received).toEqual([]);
  const own = { headers: { Origin: proxy.url } };
  expect((await post("/v1/completions", { model: "m" }, own)).status).toBe(200);
  // The engine has its own page policy.
  expect(standIns[0]!.received[0]!.headers).not.toHaveProperty("origin");
});

test("a page with a rebound DNS name is refused, and browser headers are not sent to the engine", async () => {
  const pages = () => pagePolicy(undefined, false, "0.0.0.0");
  const { proxy, standIns } = await start([ok], { proxy: { pages } });
  // Unlike fetch, this client sets the Host freely.
  const asking = async (host: string, more: Record<string, string>) => {
    const headers = { Host: host, ...more };
    const { statusCode, body } = await request(`${proxy.url}/v1/completions`, { method: "POST", headers, body: "{}" });
    return { status: statusCode, text: await body.text() };
  };
  const browser = { "User-Agent": "Mozilla/5.0", "Sec-Fetch-Site": "same-origin" };
  const rebound = await asking("evil.example", { ...browser, Origin: "http://evil.example" });
  expect(rebound).toEqual({ status: 403, text: expect.stringContaining("got evil.example") });
  expect(standIns[0]!.received).toEqual([]);
  expect((await asking("models.example", {})).status).toBe(200);
  expect((await asking("box.lan", { ...browser, Origin: "http://box.lan" })).status).toBe(200);
  for (const { headers } of standIns[0]!.received) {
    expect(headers["user-agent"]).toBe("millrace");
    for (const name of ["origin", "sec-fetch-site"]) expect(headers).not.toHaveProperty(name);
  }
});

test("a browser's session is the gateway's alone: instances see no cookie, and set none", async () => {
  const { proxy, standIns } = await start([
    (_, outgoing) => outgoing.writeHead(200, { "set-cookie": "millrace-session-8000=planted" }).end("{}"),
  ]);
  const answer = await fetch(`${proxy.url}/v1/completions`, {
    method: "POST",
    headers: { cookie: "millrace-session-8000=secret", "x-csrf-token": "secret" },
    body: "{}",
  });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("set-cookie")).toBeNull();
  expect(JSON.stringify(standIns[0]!.received[0]!.headers)).not.toContain("secret");
});
