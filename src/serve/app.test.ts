/**
 * The steps of every request: ids, keys, origins, methods, drain, metrics, and the answers and log lines for failures.
 */
import { describe, expect, it } from "vitest";
import { fakeAppOptions } from "../../test/helpers/fake-server.js";
import { ANY_PAGE, pagePolicy } from "../core/cors.js";
import type { AnthropicErrorBody, ErrorBody } from "../core/error-body.js";
import { MillraceError } from "../core/errors.js";
import type { Task } from "../engine/api/stats.js";
import { createApp, createAppWithLifecycle } from "./app.js";

const chatBody = JSON.stringify({ messages: [{ role: "user", content: "hi" }], max_tokens: 3 });
const errorOf = async (response: Response) => ((await response.json()) as ErrorBody).error;
const post = { method: "POST", body: chatBody };

describe("information", () => {
  it("serves page, health, version and models", async () => {
    const app = createApp(fakeAppOptions({}, { modelNames: ["org/one", "two"] }).options);
    expect((await app.request("/health")).status).toBe(200);
    expect(await (await app.request("/version")).json()).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    const page = await app.request("/");
    expect(page.headers.get("content-type")).toContain("text/html");
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(await page.text()).toContain("<title>millrace</title>");
    const model = await app.request("/v1/models/org/one");
    expect(await model.json()).toMatchObject({ id: "org/one", object: "model", max_model_len: 4096 });
    expect((await app.request("/v1/models/three")).status).toBe(404);
  });

  it("counts in /metrics", async () => {
    const app = createApp(fakeAppOptions().options);
    await app.request("/v1/chat/completions", post);
    const text = await (await app.request("/metrics")).text();
    expect(text).toContain('millrace:request_success_total{finished_reason="length",model_name="fake"} 1');
    expect(text).toContain('millrace:generation_tokens_total{model_name="fake"} 3');
    expect(text).toContain('millrace:time_to_first_token_seconds_count{model_name="fake"} 1');
    expect(text).toContain('millrace:inter_token_latency_seconds_count{model_name="fake"} 2');
    expect(text).toContain('millrace:num_requests_running{model_name="fake"} 0');
  });
});

describe("paths and methods", () => {
  it("names an unknown path and a wrong method", async () => {
    const app = createApp(fakeAppOptions().options);
    const missing = await app.request("/v2/chat");
    expect(missing.status).toBe(404);
    expect((await errorOf(missing)).code).toBe("not_found");
    const wrong = await app.request("/v1/chat/completions");
    expect(wrong.status).toBe(405);
    expect(wrong.headers.get("allow")).toBe("POST");
    expect((await errorOf(wrong)).code).toBe("method_not_allowed");
    const scaled = await app.request("/lora-adapters", { method: "POST", body: "[]" });
    expect((await errorOf(scaled)).message).toMatch(/got POST; an adapter is merged into its model/);
  });
});

describe("POST /invocations", () => {
  const invoke = (body: object, tasks: readonly Task[] = ["generate", "embed"]) => {
    const { options } = fakeAppOptions({ info: { tasks } });
    return createApp(options).request("/invocations", { method: "POST", body: JSON.stringify(body) });
  };

  it.each<[object, object, Task]>([
    [{ messages: [{ role: "user", content: "hi" }], max_tokens: 3 }, { object: "chat.completion" }, "generate"],
    [{ prompt: "a", max_tokens: 3 }, { object: "text_completion" }, "generate"],
    [{ input: "a" }, { object: "list", data: [{ object: "embedding" }] }, "embed"],
    [{ texts: ["a"] }, { response_type: "embeddings_by_type" }, "embed"],
    [{ inputs: [{ content: [{ type: "text", text: "a" }] }] }, { response_type: "embeddings_by_type" }, "embed"],
    [{ queries: "a", documents: "b" }, { object: "list", data: [{ object: "score" }] }, "embed"],
    [{ query: "a", documents: ["b"] }, { results: [{ index: 0 }] }, "rerank"],
    [{ query: "a", documents: ["b"] }, { results: [{ index: 0 }] }, "embed"],
  ])("answers %j as its own path does", async (body, answer, task) => {
    const response = await invoke(body, task === "rerank" ? ["generate", "rerank"] : [task]);
    expect(await response.json()).toMatchObject(answer);
    expect(response.status).toBe(200);
  });

  it("refuses what its own path would, and a body of no path", async () => {
    expect((await errorOf(await invoke({ prompt: "a" }, ["embed"]))).code).toBe("wrong_task");
    expect(await errorOf(await invoke({ prompt: "a", colour: 1 }))).toMatchObject({ code: "unknown_field" });
    expect(await errorOf(await invoke({ model: "fake" }))).toMatchObject({
      code: "invalid_parameter",
      message: expect.stringMatching(/^body: expected one of the fields messages, prompt, query, /),
    });
  });
});

describe("Anthropic's paths", () => {
  const bodyOf = async (response: Response) => (await response.json()) as AnthropicErrorBody;

  it("answer every failure in Anthropic's words", async () => {
    const { app, lifecycle } = createAppWithLifecycle(fakeAppOptions({}, { apiKeys: ["key"] }).options);
    const wrong = await app.request("/v1/messages");
    expect(wrong.status).toBe(405);
    expect((await bodyOf(wrong)).error.type).toBe("invalid_request_error");
    const closed = await app.request("/v1/messages/count_tokens", { ...post, headers: { "x-api-key": "other" } });
    expect(closed.status).toBe(401);
    const { error, request_id } = await bodyOf(closed);
    expect(error).toMatchObject({ type: "authentication_error", details: { error_code: "invalid_api_key" } });
    expect(closed.headers.get("request-id")).toBe(request_id);
    lifecycle.isDraining = true;
    const refused = await app.request("/v1/messages", post);
    expect(refused.status).toBe(503);
    expect((await bodyOf(refused)).error.type).toBe("overloaded_error");
  });
});

describe("paths of OpenAI's that are not here", () => {
  it("are unknown, even if they look like a stored answer's", async () => {
    const answer = await createApp(fakeAppOptions().options).request("/v1/responses/compact", { method: "POST" });
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ error: { code: "not_found" } });
  });
});

describe("request ids", () => {
  it("are kept when harmless, made otherwise, and come back with errors too", async () => {
    const app = createApp(fakeAppOptions().options);
    const kept = await app.request("/health", { headers: { "X-Request-Id": "abc-1" } });
    expect(kept.headers.get("x-request-id")).toBe("abc-1");
    const made = await app.request("/health", { headers: { "X-Request-Id": "no spaces, please" } });
    expect(made.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    const failed = await app.request("/nowhere", { headers: { "X-Request-Id": "abc-2" } });
    expect(failed.headers.get("x-request-id")).toBe("abc-2");
  });
});

describe("keys", () => {
  const apiKeys = ["first", "second"];
  const statusOf = async (path: string, key?: string) => {
    const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    const { options, lines } = fakeAppOptions({}, { apiKeys });
    const { status } = await createApp(options).request(path, { headers });
    expect(JSON.stringify(lines)).not.toContain(`"${key ?? "-"}"`);
    return status;
  };

  it("open /v1 and the tokenizer only", async () => {
    expect(await statusOf("/v1/models", "first")).toBe(200);
    expect(await statusOf("/v1/models", "second")).toBe(200);
    expect(await statusOf("/v1/models", "third")).toBe(401);
    expect(await statusOf("/v1/models", "")).toBe(401);
    expect(await statusOf("/v1/models")).toBe(401);
    expect(await statusOf("/health")).toBe(200);
    expect(await statusOf("/metrics")).toBe(200);
    for (const path of ["/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions", "/v1/responses"]) {
      const response = await createApp(fakeAppOptions({}, { apiKeys }).options).request(path, post);
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
    }
  });
});

describe("origins", () => {
  it("any, never with credentials", async () => {
    const app = createApp(fakeAppOptions().options);
    const headers = { Origin: "http://a.example", "Access-Control-Request-Method": "POST" };
    const preflight = await app.request("/v1/chat/completions", { method: "OPTIONS", headers });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe("*");
    expect(preflight.headers.get("access-control-allow-credentials")).toBeNull();
    const refused = await app.request("/nowhere", { headers: { Origin: "http://a.example" } });
    expect(refused.headers.get("access-control-allow-origin")).toBe("*");
  });

  it("of others are refused without keys, and none of their requests is served", async () => {
    const { engine, options } = fakeAppOptions({}, { pages: pagePolicy(undefined, false, "127.0.0.1") });
    const app = createApp(options);
    const from = (headers: Record<string, string>) => app.request("/v1/chat/completions", { ...post, headers });
    const host = "127.0.0.1:8000";
    const foreign = await from({ Host: host, Origin: "http://evil.example", "Content-Type": "text/plain" });
    expect([foreign.status, (await errorOf(foreign)).code]).toEqual([403, "forbidden"]);
    expect(foreign.headers.get("access-control-allow-origin")).toBeNull();
    expect((await from({ Host: "evil.example:8000" })).status).toBe(403);
    expect(engine.submitted).toEqual([]);
    expect((await from({ Host: host, Origin: `http://${host}` })).status).toBe(200);
    expect((await from({ Host: host })).status).toBe(200);
  });

  it("of a name that was pointed at the server are refused too, where that may have any name", async () => {
    const { engine, options } = fakeAppOptions({}, { pages: pagePolicy(undefined, false, "0.0.0.0") });
    const app = createApp(options);
    const from = (headers: Record<string, string>) => app.request("/v1/chat/completions", { ...post, headers });
    const rebound = { Host: "evil.example:8000", Origin: "http://evil.example:8000" };
    const refused = await from(rebound);
    expect([refused.status, (await errorOf(refused)).code]).toEqual([403, "forbidden"]);
    expect(
      (await app.request("/metrics", { headers: { ...rebound, Origin: "", "User-Agent": "Mozilla/5.0" } })).status,
    ).toBe(403);
    expect(engine.submitted).toEqual([]);
    expect((await from({ Host: "box.lan:8000", Origin: "http://box.lan:8000" })).status).toBe(200);
    expect((await from({ Host: "models.example:8000" })).status).toBe(200);
  });

  it("only the listed ones", async () => {
    const app = createApp(fakeAppOptions({}, { pages: { ...ANY_PAGE, origins: ["http://a.example"] } }).options);
    const allowed = await app.request("/health", { headers: { Origin: "http://a.example" } });
    expect(allowed.headers.get("access-control-allow-origin")).toBe("http://a.example");
    const other = await app.request("/health", { headers: { Origin: "http://b.example" } });
    expect(other.headers.get("access-control-allow-origin")).toBeNull();
    expect(other.headers.get("vary")).toBe("Origin");
  });
});

describe("failures", () => {
  it("to turn the engine's loop make /health say so, until it turns again", async () => {
    const { engine, options } = fakeAppOptions({ stepsByItself: false });
    const app = createApp(options);
    engine.stalled = 45_000;
    const answer = await app.request("/health");
    expect(answer.status).toBe(503);
    expect(await errorOf(answer)).toMatchObject({ code: "engine_stalled", message: expect.stringContaining("45 s") });
    engine.stalled = 0;
    expect((await app.request("/health")).status).toBe(200);
  });

  it("of the engine reach the client and /health, and are logged once", async () => {
    const { engine, options, lines } = fakeAppOptions({ stepsByItself: false });
    const app = createApp(options);
    const pending = app.request("/v1/chat/completions", post);
    while (engine.numLive === 0) await new Promise((resolve) => setImmediate(resolve));
    engine.fail(new MillraceError("engine_failed", "expected a running engine, got a crash"));
    const answer = await pending;
    expect(answer.status).toBe(500);
    expect(await errorOf(answer)).toMatchObject({ code: "engine_failed", type: "server_error" });
    expect(lines.filter((line) => line.fields.code === "engine_failed")).toHaveLength(1);
    expect((await app.request("/health")).status).toBe(500);
  });

  it("nobody foresaw tell the client nothing but where to look", async () => {
    const { options, lines } = fakeAppOptions();
    const broken = {
      ...options,
      chatTemplate: {
        render: () => {
          throw new TypeError("the secret of the house");
        },
      },
    };
    const answer = await createApp(broken).request("/v1/chat/completions", post);
    expect(answer.status).toBe(500);
    const error = await errorOf(answer);
    expect(error.code).toBe("internal_error");
    expect(error.message).not.toContain("secret");
    expect(error.message).toContain(answer.headers.get("x-request-id") ?? "-");
    expect(lines.filter((line) => line.level === "error")).toHaveLength(1);
  });

  it("of one of several submissions leave nothing behind", async () => {
    const { engine, options } = fakeAppOptions({ maxWaitingRequests: 2 });
    const body = JSON.stringify({ prompt: ["a", "b", "c"], max_tokens: 3 });
    const answer = await createApp(options).request("/v1/completions", { method: "POST", body });
    expect(answer.status).toBe(429);
    expect(answer.headers.get("retry-after")).toBe("2");
    expect(engine.numLive).toBe(0);
    expect(engine.numAborted).toBe(2);
  });
});

describe("draining", () => {
  it("refuses work, still tells how it is", async () => {
    const { app, lifecycle } = createAppWithLifecycle(fakeAppOptions().options);
    lifecycle.isDraining = true;
    const refused = await app.request("/v1/chat/completions", post);
    expect(refused.status).toBe(503);
    expect((await errorOf(refused)).code).toBe("shutting_down");
    expect((await app.request("/health")).status).toBe(503);
    expect((await app.request("/metrics")).status).toBe(200);
  });
});
