/** GET /watch/requests of an engine's server: each request with its parts, whose sum is the total. */
import { afterEach, expect, it } from "vitest";
import { type FakeServer, startFakeServer } from "../../../test/helpers/fake-server.js";
import { type RequestRow, requestRows } from "../../observe/live/request-rows.js";

let fake: FakeServer | undefined;

afterEach(() => fake?.server.close());

async function rows(query = "", headers: Record<string, string> = {}): Promise<readonly RequestRow[]> {
  const answer = await fetch(`${fake!.server.url}/watch/requests?${query}`, { headers });
  expect(answer.status).toBe(200);
  return requestRows.strict().parse(await answer.json()).data;
}

async function post(path: string, body: object, headers: Record<string, string> = {}): Promise<string> {
  const answer = await fetch(fake!.server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
  return await answer.text();
}

const PARTS = ["prepare_ms", "queue_ms", "prefill_ms", "decode_ms"] as const;

it("has whole answers and streams, with tokens and times that sum up", async () => {
  fake = await startFakeServer();
  const beforeMs = Date.now();
  const answer = await post(
    "/v1/completions",
    { prompt: "secret words", max_tokens: 5, n: 2 },
    { "x-request-id": "whole" },
  );
  await post("/v1/completions", { prompt: "secret", max_tokens: 4, stream: true }, { "x-request-id": "stream" });
  const afterMs = Date.now();
  const [stream, whole] = await rows();
  expect(whole).toMatchObject({
    id: "whole",
    path: "/v1/completions",
    model: "fake",
    outcome: "answered",
    status: 200,
    finish_reason: "length",
    output_tokens: 10,
    draft_tokens: 0,
    cached_tokens: 0,
  });
  expect(stream).toMatchObject({ id: "stream", outcome: "answered", output_tokens: 4 });
  for (const row of [stream!, whole!]) {
    expect(row.prompt_tokens).toBeGreaterThan(0);
    const sum = PARTS.reduce((all, name) => all + row[name]!, 0);
    expect(sum).toBeLessThanOrEqual(row.total_ms! + 1e-6);
    expect(row.ttft_ms).toBeCloseTo(sum - row.decode_ms!, 6);
    for (const name of PARTS) expect(row[name], name).toBeGreaterThanOrEqual(0);
    expect(row.at_ms).toBeGreaterThanOrEqual(beforeMs);
    // The two clocks are read separately, one of them in whole milliseconds.
    expect(row.at_ms + row.total_ms!).toBeLessThanOrEqual(afterMs + 2);
  }
  // One prompt with two answers counts as one prompt.
  const { usage } = JSON.parse(answer) as { usage: { prompt_tokens: number } };
  expect(whole!.prompt_tokens).toBe(usage.prompt_tokens);
  expect(JSON.stringify(await rows())).not.toContain("secret");
});

it("has refused requests with their codes, and requests for no model's work not at all", async () => {
  fake = await startFakeServer();
  await post("/v1/completions", { prompt: "a", max_tokens: -2 });
  await post("/v1/chat/completions", {});
  await post("/tokenize", { prompt: "a" });
  await fetch(`${fake.server.url}/v1/models`);
  const found = await rows("failed=true");
  expect(found.map(({ path, status, error_code }) => [path, status, error_code])).toEqual([
    ["/v1/chat/completions", 400, "invalid_parameter"],
    ["/v1/completions", 400, "invalid_parameter"],
  ]);
  expect(await rows()).toHaveLength(2);
});

it.each([
  ["/api/chat", { messages: [], stream: false }],
  ["/api/generate", { keep_alive: 0 }],
  ["/api/embed", { input: [] }],
])("has a request to %s for nothing as answered", async (path, body) => {
  fake = await startFakeServer();
  await post(path, body);
  const [row] = await rows();
  expect(row).toMatchObject({ path, outcome: "answered", status: 200 });
  expect((await rows("failed=true")).length).toBe(0);
  expect((await rows())[0]!.total_ms).toBe(row!.total_ms);
});

it("needs a key where there are keys; keys that are apart see their own requests", async () => {
  fake = await startFakeServer({}, { apiKeys: ["one", "two"], isolatesApiKeys: true });
  const as = (key: string) => ({ authorization: `Bearer ${key}` });
  expect((await fetch(`${fake.server.url}/watch/requests`)).status).toBe(401);
  await post("/v1/completions", { prompt: "a", max_tokens: 1 }, { ...as("one"), "x-request-id": "of-one" });
  expect((await rows("", as("one"))).map(({ id }) => id)).toEqual(["of-one"]);
  expect(await rows("", as("two"))).toEqual([]);
});
