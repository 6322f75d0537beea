import { afterEach, expect, test } from "vitest";
import {
  answerJson,
  type FleetOptions,
  refusalOf,
  startFleet,
  type TestFleet,
} from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";

let fleet: TestFleet;
afterEach(() => fleet.stop());

const start = async (behaviours: Parameters<typeof startFleet>[0], options?: FleetOptions) => {
  fleet = await startFleet(behaviours, options);
  return fleet;
};
const ok = answerJson({ ok: true });

test.each([
  ["no JSON", "/v1/completions", "{", [400, "invalid_json"]],
  ["no object", "/v1/completions", "[]", [400, "invalid_json"]],
  ["an unknown model", "/v1/completions", `{"model":"gpt-4"}`, [404, "model_not_found"]],
  ["a model that is no name", "/v1/completions", `{"model":{}}`, [404, "model_not_found"]],
  ["an unknown path", "/v2/completions", "{}", [404, "not_found"]],
  ["a stream that is no boolean", "/v1/completions", `{"stream":"true"}`, [400, "invalid_parameter"]],
  ["a path that leads elsewhere", "/v1/x%2fsleep", "{}", [404, "not_found"]],
  ["a path of an engine's own administration", "/v1/load_lora_adapter", "{}", [404, "not_found"]],
  ["a huge body", "/v1/completions", `{"prompt":"${"x".repeat(70_000)}"}`, [413, "body_too_large"]],
])("%s", async (_, path, body, expected) => {
  const { post, standIns } = await start([ok], { limits: { maxBodyBytes: 65_536 } });
  expect(await refusalOf(await post(path, body))).toEqual(expected);
  expect(standIns[0]!.received).toEqual([]);
});

test("a compressed body, and none", async () => {
  const { proxy } = await start([ok]);
  const refusal = async (body: string, headers: Record<string, string>) =>
    (await fetch(`${proxy.url}/v1/completions`, { method: "POST", body, headers })).text();
  expect(await refusal("x", { "content-encoding": "gzip" })).toMatch(/body without Content-Encoding, got .*gzip/);
  expect(await refusal("", {})).toContain("got nothing (0 bytes)");
});

test("the wrong method", async () => {
  const { proxy } = await start([ok]);
  expect(await refusalOf(await fetch(`${proxy.url}/v1/completions`))).toEqual([405, "method_not_allowed"]);
  expect(await refusalOf(await fetch(`${proxy.url}/v1/fine_tuning/jobs`))).toEqual([404, "not_found"]);
  expect(await (await fetch(`${proxy.url}/v1/models/`)).text()).toContain("without the extra slash: /v1/models");
  for (const path of ["/health", "/v1/health", "/ping"]) expect((await fetch(proxy.url + path)).status).toBe(200);
  for (const path of ["/v1/models", "/v1/models/m", "/api/tags", "/version", "/ping"]) {
    const answer = await fetch(proxy.url + path, { method: "PUT" });
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET"]);
  }
});

test("huge headers", async () => {
  const { proxy } = await start([ok]);
  const response = await fetch(`${proxy.url}/v1/completions`, {
    method: "POST",
    body: "{}",
    headers: { "X-Big": "x".repeat(20_000) },
  });
  expect(await refusalOf(response)).toEqual([431, "invalid_request"]);
});

test("an unauthorised client, in the dialect of the route", async () => {
  const { post, watched } = await start([ok], {
    proxy: {
      authorize: () => {
        throw new MillraceError("invalid_api_key", "expected a valid API key, got none");
      },
    },
  });
  const response = await post("/v1/messages", {});
  expect(response.status).toBe(401);
  expect(response.headers.get("request-id")).toMatch(/\w{8}-/);
  expect(await response.json()).toMatchObject({ type: "error", error: { type: "authentication_error" } });
  expect(watched.refused).toEqual(["invalid_api_key"]);
});

test("a request id that would corrupt a log is replaced", async () => {
  const { post, standIns } = await start([ok]);
  const response = await post("/v1/completions", { model: "m" }, { headers: { "X-Request-Id": 'a"b' } });
  const id = response.headers.get("x-request-id");
  expect(id).toMatch(/^[\w-]{36}$/);
  expect(standIns[0]!.received[0]!.headers["x-request-id"]).toBe(id);
});
