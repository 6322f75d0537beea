/** The terms of requests: keys become tenants, priorities and deadlines reach the engine, and timers are cleared. */
import { afterEach, describe, expect, it, test, vi } from "vitest";
import { type FakeApp, fakeAppOptions, startFakeServer, until } from "../../test/helpers/fake-server.js";
import { createKeyCheck } from "../core/api-keys.js";
import type { ErrorBody } from "../core/error-body.js";
import { createApp } from "./app.js";
import type { AppOptions } from "./http/context.js";

const chatFields = { messages: [{ role: "user", content: "hi" }], max_tokens: 3 };
const ENDPOINTS: readonly (readonly [path: string, fields: object])[] = [
  ["/v1/chat/completions", chatFields],
  ["/v1/completions", { prompt: "hi" }],
  ["/v1/responses", { input: "hi", max_output_tokens: 3 }],
  ["/v1/embeddings", { input: "hi" }],
  ["/v1/messages", chatFields],
];

async function post(fake: FakeApp, path: string, fields: object, headers: Record<string, string> = {}) {
  const request = { method: "POST", body: JSON.stringify(fields), headers };
  return createApp(fake.options).request(path, request);
}

async function submittedWith(overrides: Partial<AppOptions>, fields: object, headers: Record<string, string> = {}) {
  const fake = fakeAppOptions({}, overrides);
  const response = await post(fake, "/v1/chat/completions", { ...chatFields, ...fields }, headers);
  expect(response.status).toBe(200);
  return fake.engine.submitted[0]!;
}

test("a gateway's header makes a request a background one", async () => {
  expect(await submittedWith({}, {})).not.toHaveProperty("isBackground");
  expect(await submittedWith({}, {}, { "x-millrace-background": "1" })).toMatchObject({ isBackground: true });
});

describe("the tenant", () => {
  const apiKeys = ["first-key", "second-key"];

  it("is the key's, in whatever header it comes", () => {
    const check = createKeyCheck(apiKeys);
    const [first, second] = [check("Bearer first-key", undefined), check("Bearer second-key", undefined)];
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(second).not.toBe(first);
    expect(check(undefined, "first-key")).toBe(first);
    expect(check("Bearer second-key", "first-key")).toBe(second);
    expect(check("Bearer nonsense", "first-key")).toBe(first);
    expect(createKeyCheck([...apiKeys].reverse())("Bearer first-key", undefined)).toBe(first);
    expect(() => check("Bearer third-key", "")).toThrow(/got an unknown one/);
    expect(() => check(undefined, undefined)).toThrow(/got none/);
  });

  it("is nobody on a server without keys", () => {
    expect(createKeyCheck([])("Bearer anything", undefined)).toBe("");
  });

  it("reaches the engine, and nothing that the outside sees", async () => {
    const fake = fakeAppOptions({}, { apiKeys });
    const headers = { Authorization: "Bearer second-key" };
    const response = await post(fake, "/v1/chat/completions", { ...chatFields, user: "me" }, headers);
    const tenant = createKeyCheck(apiKeys)("Bearer second-key", undefined);
    expect(fake.engine.submitted[0]).toMatchObject({ tenant });
    const metrics = await (await createApp(fake.options).request("/metrics")).text();
    const seen = JSON.stringify([await response.text(), [...response.headers], fake.lines, metrics]);
    expect(seen).not.toContain(tenant);
  });

  it("keeps prefixes apart where keys are isolated", async () => {
    const saltOf = async (key: string, fields: object, isolatesApiKeys = true) =>
      (await submittedWith({ apiKeys, isolatesApiKeys }, fields, { "x-api-key": key })).cacheSalt;
    expect(await saltOf("first-key", {}, false)).toBeUndefined();
    expect(await saltOf("first-key", { cache_salt: "s" }, false)).toBe("s");
    expect(await saltOf("first-key", {})).toBe(await saltOf("first-key", {}));
    const salts = [
      await saltOf("first-key", {}),
      await saltOf("second-key", {}),
      await saltOf("first-key", { cache_salt: "s" }),
      await saltOf("second-key", { cache_salt: "s" }),
      await saltOf("first-key", { cache_salt: ":s" }),
    ];
    expect(new Set(salts).size).toBe(salts.length);
  });
});

describe("the scope that a gateway names", () => {
  const scope = "0123456789abcdef".repeat(2);
  const saltOf = async (headers: Record<string, string>, overrides = {}) =>
    (await submittedWith(overrides, { cache_salt: "s" }, headers)).cacheSalt;

  it("keeps prefixes apart, and only apart", async () => {
    expect(await saltOf({ "X-Millrace-Cache-Scope": scope })).toBe(`${scope}:s`);
    const keyed = { apiKeys: ["first-key", "second-key"], isolatesApiKeys: true };
    const [own, within] = [{ "x-api-key": "first-key" }, { "x-api-key": "first-key", "x-millrace-cache-scope": scope }];
    expect(await saltOf(within, keyed)).not.toBe(await saltOf(own, keyed));
    expect(await saltOf(within, keyed)).not.toBe(`${scope}:s`);
  });

  it("is whose share a request is served from, unless several keys say that", async () => {
    const tenantOf = async (key: string, isScoped: boolean, ...apiKeys: string[]) => {
      const headers = { "x-api-key": key, ...(isScoped ? { "X-Millrace-Cache-Scope": scope } : {}) };
      return (await submittedWith({ apiKeys }, {}, headers)).tenant;
    };
    expect([await tenantOf("none", false), await tenantOf("none", true)]).toEqual(["", scope]);
    expect(await tenantOf("own", true, "own")).toBe(scope);
    expect(await tenantOf("own", false, "own")).not.toBe(scope);
    expect(await tenantOf("own", true, "own", "other")).toBe(await tenantOf("own", false, "own", "other"));
    expect(await tenantOf("own", true, "own", "other")).not.toBe(await tenantOf("other", true, "own", "other"));
  });

  it("is refused in another form, which could be another's", async () => {
    const fake = fakeAppOptions();
    const refused = await post(fake, "/v1/completions", { prompt: "hi" }, { "X-Millrace-Cache-Scope": "a:b" });
    expect([refused.status, fake.engine.submitted]).toEqual([400, []]);
  });
});

describe("priority", () => {
  it.each(ENDPOINTS)("of %s reaches the engine", async (path, fields) => {
    const fake = fakeAppOptions({}, { schedulingPolicy: "priority" });
    expect((await post(fake, path, { ...fields, priority: -3 })).status).toBe(200);
    expect((await post(fake, path, fields)).status).toBe(200);
    expect(fake.engine.submitted.map((request) => request.priority)).toEqual([-3, 0]);
  });

  it.each([
    ["fcfs"],
    ["fair"],
    [undefined],
  ] as const)("is refused under the policy %s, unless it is 0", async (policy) => {
    const fake = fakeAppOptions({}, policy === undefined ? {} : { schedulingPolicy: policy });
    expect((await post(fake, "/v1/completions", { prompt: "hi", priority: 0 })).status).toBe(200);
    const refused = await post(fake, "/v1/completions", { prompt: "hi", priority: 1 });
    expect(refused.status).toBe(400);
    expect(((await refused.json()) as ErrorBody).error).toMatchObject({
      code: "invalid_parameter",
      param: "priority",
      message: expect.stringMatching(/^priority: expected 0 .* is (fcfs|fair), got 1; .*--scheduling-policy priority/),
    });
    expect(fake.engine.submitted).toHaveLength(1);
  });

  it.each([[1.5], ["1"], [2 ** 31]])("is an integer, not %j", async (priority) => {
    const fake = fakeAppOptions({}, { schedulingPolicy: "priority" });
    expect((await post(fake, "/v1/completions", { prompt: "hi", priority })).status).toBe(400);
  });
});

describe("timeout", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each(ENDPOINTS)("ends a request of %s that waits or runs", async (path, fields) => {
    const fake = fakeAppOptions({ stepsByItself: false });
    const response = await post(fake, path, { ...fields, timeout: 0.3 });
    expect(response.status).toBe(504);
    expect(response.headers.get("x-should-retry")).toBe("false");
    const { error } = (await response.json()) as { error: { message: string; type: string } };
    expect(error.message).toMatch(/^expected the whole answer within 0.3 s, got 0 tokens of it; /);
    expect(JSON.stringify(error)).toContain('"deadline_exceeded"');
    if (path === "/v1/messages") expect(error.type).toBe("timeout_error");
    expect(fake.engine.numLive).toBe(0);
    expect(fake.engine.numAborted).toBe(1);
    expect(fake.lines).toMatchObject([{ level: "warn", fields: { code: "deadline_exceeded" } }]);
  });

  it("ends all choices of a request at once", async () => {
    const fake = fakeAppOptions({ stepsByItself: false });
    const pending = post(fake, "/v1/completions", { prompt: ["a", "b"], n: 2, max_tokens: 2, timeout: 0.5 });
    await until(() => fake.engine.numLive === 4, "all four to reach the engine");
    fake.engine.step();
    const response = await pending;
    expect(response.status).toBe(504);
    expect(((await response.json()) as ErrorBody).error.message).toContain("got 4 tokens of it");
    expect(fake.engine.numAborted).toBe(4);
  });

  it("in the middle of a stream is an error event, and the end", async () => {
    const { server, engine } = await startFakeServer({ stepsByItself: false });
    const body = JSON.stringify({ ...chatFields, stream: true, timeout: 0.2 });
    const pending = fetch(`${server.url}/v1/chat/completions`, { method: "POST", body });
    await until(() => engine.numLive === 1, "the request to reach the engine");
    engine.step();
    const text = await (await pending).text();
    const events = text.trimEnd().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    expect(JSON.parse(events.at(-2)?.slice(6) ?? "")).toMatchObject({ error: { code: "deadline_exceeded" } });
    expect(engine.numLive).toBe(0);
    await server.close();
  });

  it("leaves no timer behind", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const done = fakeAppOptions();
    expect((await post(done, "/v1/completions", { prompt: "hi", timeout: 86_400 })).status).toBe(200);
    const refused = fakeAppOptions({ maxWaitingRequests: 1 });
    expect((await post(refused, "/v1/completions", { prompt: ["a", "b"], timeout: 9 })).status).toBe(429);
    const failed = fakeAppOptions({ script: () => [100_000] });
    expect((await post(failed, "/v1/completions", { prompt: "hi", timeout: 9 })).status).toBe(400);
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each([[0], [-1], [86_401], ["5"]])("is not %j", async (timeout) => {
    const refused = await post(fakeAppOptions(), "/v1/completions", { prompt: "hi", timeout });
    expect(refused.status).toBe(400);
    expect(((await refused.json()) as ErrorBody).error).toMatchObject({ param: "timeout" });
  });
});
