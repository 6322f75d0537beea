import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { scriptProgram } from "../../../test/helpers/fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { parseConfig } from "../config/read-config.js";
import { Fleet } from "../fleet.js";

/**
 * A server with vLLM's flags. Its number of seats sets a fault: 0: it does not start, 1: slow, 2: every answer is an
 * error. It answers with the number.
 */
const ENGINE = `
const flag = (name) => process.argv[process.argv.lastIndexOf(name) + 1];
const seats = process.argv.includes("--max-num-seqs") ? flag("--max-num-seqs") : "64";
if (seats === "0") throw new Error("no seats");
require("node:http").createServer(async (request, response) => {
  if (request.method === "GET") return response.end(request.url === "/v1/models" ? '{"data":[]}' : "");
  for await (const _ of request);
  await new Promise((resolve) => setTimeout(resolve, seats === "1" ? 40 : 5 + 5 * Math.random()));
  response.writeHead(seats === "2" ? 500 : 200, { "content-type": "application/json" });
  const choices = [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }];
  response.end(JSON.stringify({ object: "chat.completion", seats, choices, usage: { prompt_tokens: 1, completion_tokens: 5 } }));
}).listen(Number(flag("--port")), "127.0.0.1");
`;
const ADMIN = { authorization: "Bearer the-admin" };

let folder: string;
let fleet: Fleet;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-canary-"));
  const program = JSON.stringify(scriptProgram(ENGINE));
  const models = ["slow", "bad", "broken", "good", "cached", "still"].map(
    (name) =>
      `  - { name: ${name}, aliases: [${name}-alias], engine: vllm, program: ${program}, model: x, cache: { version: one } }`,
  );
  const config = parseConfig(
    `port: 0
data-folder: ${folder}
admin-key: the-admin
operators: [{ name: vera, role: viewer, key: the-viewer }, { name: otto, role: operator, key: the-operator }]
cache: { store: memory, assume-deterministic: true }
routes: [{ name: routed, rules: [{ to: slow }] }]
models:\n${models.join("\n")}\n`,
    "millrace.yaml",
    {},
  );
  const machine = { cores: [[0]], splits: new Map(), millraceSeats: 1 };
  fleet = await Fleet.start({ config, machine, logger: pino({ level: "silent" }), logFolder: join(folder, "logs") });
  await fleet.whenStarted();
}, 60_000);
afterAll(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const SLOW = { timeout: 60_000 };
type Answer = { readonly status: number; readonly body: Json };

async function ask(
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = ADMIN,
): Promise<Answer> {
  const response = await fetch(fleet.url + path, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

let numAsked = 0;
const chat = (model: string, fields: object = {}, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(
    "POST",
    "/v1/chat/completions",
    { model, messages: [{ role: "user", content: `Hello ${numAsked++}` }], ...fields },
    headers,
  );
const chats = (model: string, count: number): Promise<readonly Answer[]> =>
  Promise.all(Array.from({ length: count }, () => chat(model)));
const report = async (model: string) => (await ask("GET", `/admin/canaries/${model}`)).body;

async function startCanary(model: string, seats: string, more: object = {}): Promise<void> {
  const wish = { model, args: ["--max-num-seqs", seats], minutes: 5, ...more };
  expect(await ask("POST", "/admin/canaries", wish)).toMatchObject({ status: 202, body: { model, state: "starting" } });
  await vi.waitFor(async () => expect((await report(model)).share).toBeGreaterThan(0), SLOW);
}

/** Sends requests until the canary ends. */
async function untilEnd(model: string, name = model): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  await vi.waitFor(
    async () => {
      answers.push(...(await chats(name, 20)));
      expect(["starting", "running"]).not.toContain((await report(model)).state);
    },
    { timeout: 40_000, interval: 50 },
  );
  return answers;
}

test("a slow canary gets its share, also by routes and aliases, is stopped, and its instance goes", SLOW, async () => {
  await startCanary("slow", "1");
  const seats = (await Promise.all(["routed", "slow-alias", "slow"].map((name) => chats(name, 20)))).map(
    (answers) => answers.filter(({ body }) => body.seats === "1").length,
  );
  expect(seats).toEqual([10, 10, 10]);
  expect((await untilEnd("slow")).every(({ status }) => status === 200)).toBe(true);
  expect(await report("slow")).toMatchObject({
    state: "slower",
    because: expect.stringMatching(/^the time of a request is [\d.]+ × \([\d.]+ to [\d.]+\) that of the others$/),
    share: 0,
  });
  await vi.waitFor(() => expect(fleet.instances().some(({ model }) => model === "slow~canary")).toBe(false), SLOW);
  expect((await chats("slow", 20)).every(({ body }) => body.seats === "64")).toBe(true);
});

test("no client sees the errors of a failing canary", SLOW, async () => {
  await startCanary("bad", "2", { share: 0.25 });
  expect((await untilEnd("bad")).every(({ status }) => status === 200)).toBe(true);
  expect(await report("bad")).toMatchObject({ state: "failing", because: expect.stringContaining("requests failed") });
});

test("a canary whose instance does not start ends at its first try, with the engine's own words", SLOW, async () => {
  const wish = { model: "broken", args: ["--max-num-seqs", "0"], minutes: 5 };
  expect(await ask("POST", "/admin/canaries", wish)).toMatchObject({ status: 202, body: { state: "starting" } });
  const starts = () =>
    Math.max(...fleet.instances().map(({ model, starts }) => (model === "broken~canary" ? starts : 0)));
  let numStarts = 0;
  await vi.waitFor(async () => {
    numStarts = Math.max(numStarts, starts());
    expect(await report("broken")).toMatchObject({ state: "failing", because: expect.stringContaining("no seats") });
  }, SLOW);
  expect(numStarts).toBeLessThan(4);
  expect((await chats("broken", 4)).every(({ status }) => status === 200)).toBe(true);
});

test("a canary that is as good passes at its end", SLOW, async () => {
  await startCanary("good", "32", { minutes: 0.1, max_slowdown: 2 });
  await untilEnd("good");
  const { state, because, canary, others } = await report("good");
  expect([state, because]).toEqual(["passed", expect.stringContaining("that of the others")]);
  expect(Math.abs(canary.requests - others.requests)).toBeLessThan(0.1 * others.requests);
});

test("a session stays on its side, and the cache keeps the two sides' answers apart", SLOW, async () => {
  await startCanary("cached", "3");
  const sessions = Array.from({ length: 12 }, (_, i) => ({ "x-session-id": `session-${i}` }));
  const seatsOf = async (content: string) => {
    const fields = { messages: [{ role: "user", content }], temperature: 0, seed: 1 };
    return Promise.all(sessions.map(async (headers) => (await chat("cached", fields, headers)).body.seats));
  };
  const first = await seatsOf("one");
  expect(new Set(first)).toEqual(new Set(["3", "64"]));
  expect(await seatsOf("one")).toEqual(first);
  expect(await seatsOf("two")).toEqual(first);
  // A model-wide guardrail or limit would not know this name.
  expect(await chat("cached~canary")).toMatchObject({ status: 404, body: { error: { code: "model_not_found" } } });
  const { data } = (await ask("GET", "/v1/models")).body;
  expect(data.map(({ id }: { id: string }) => id)).not.toContain("cached~canary");
  expect(await ask("DELETE", "/admin/canaries/cached")).toMatchObject({ body: { state: "stopped" } });
  expect(new Set(await seatsOf("one"))).toEqual(new Set(["64"]));
});

test("wrong requests are refused", SLOW, async () => {
  const start = (body: object, key = "the-admin") =>
    ask("POST", "/admin/canaries", body, { authorization: `Bearer ${key}` });
  expect(await start({ model: "nobody" })).toMatchObject({ status: 404, body: { error: { code: "model_not_found" } } });
  expect(await start({ model: "still", share: 2 })).toMatchObject({ status: 400, body: { error: { param: "share" } } });
  expect(await start({ model: "still", flags: [] })).toMatchObject({ status: 400 });
  expect(await start({ model: "still" }, "the-operator")).toMatchObject({ status: 403 });
  expect(await ask("GET", "/admin/canaries/still")).toMatchObject({ status: 404 });
  expect(await start({ model: "still-alias" })).toMatchObject({ status: 202, body: { model: "still" } });
  expect(await start({ model: "still" })).toMatchObject({ status: 409, body: { error: { code: "already_exists" } } });
  expect(await start({ model: "still~canary" })).toMatchObject({ status: 404 });
  expect(await ask("DELETE", "/admin/canaries/still", undefined, { authorization: "Bearer the-viewer" })).toMatchObject(
    {
      status: 403,
    },
  );
  expect(await ask("DELETE", "/admin/canaries/still")).toMatchObject({ status: 200, body: { state: "stopped" } });
  const { data } = (await ask("GET", "/admin/canaries")).body;
  expect(data.map(({ model }: { model: string }) => model)).toContain("still");
});
