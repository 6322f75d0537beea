/**
 * The ledger through the real proxy: the rows of requests, and their readers.
 *
 * size: every test needs the same gateway, prices and stand-in.
 */

import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import type { Json } from "../../../test/helpers/json.js";
import {
  answerJson,
  type Behaviour,
  beginStream,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "../../../test/helpers/stand-in.js";
import { usageAsker } from "../../gateway/ask-usage.js";
import type { Policy } from "../../gateway/pipeline.js";
import { openDatabase } from "../../gateway/store/database.js";
import { NOTE } from "../../gateway/usage/record.js";
import { adminHandler } from "../admin.js";
import { parseConfig } from "../config/read-config.js";
import { authorizeBy } from "./authorize.js";
import { Ledger } from "./ledger.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const FILE = `
admin-key: boss
ledger: {cost-header: true}
api-keys:
  - {tenant: search, key: sk-search}
  - {tenant: shop, key: sk-shop}
models:
  - {name: m, price: {input: "1", cache-read: "0.1", output: 4}, attach: [{url: "http://127.0.0.1:1"}]}
`;

interface Gateway {
  readonly fleet: TestFleet;
  readonly ledger: Ledger;
  admin(path: string): Promise<Json>;
  text(path: string, key?: string): Promise<string>;
  ask(body: object, key?: string, init?: RequestInit): Promise<Response>;
}

interface Started {
  readonly file?: string;
  readonly database?: ReturnType<typeof openDatabase>;
  readonly inner?: readonly Policy[];
  readonly modelOf?: (name: string) => string;
}

async function start(
  behaviours: readonly Behaviour[],
  { file = FILE, database, inner = [], modelOf = (name) => name }: Started = {},
): Promise<Gateway> {
  const config = parseConfig(file, "millrace.yaml", {});
  const logger = pino({ level: "silent" });
  const opened = database ?? openDatabase(undefined);
  const authorize = authorizeBy(config.apiKeys);
  const ledger = new Ledger({ config: () => config, database: () => opened, logger, modelOf, authorize });
  ledger.open();
  const admin = adminHandler(adminTarget([ledger.adminApp()], () => config.adminKey));
  const fleet = await startFleet(behaviours, {
    proxy: {
      authorize,
      modelOf,
      policies: [...ledger.policies(), ...inner, usageAsker],
      handleOther: (...request) => ledger.handle(...request) || admin(...request),
    },
  });
  closing.push(async () => {
    await fleet.stop();
    await ledger.close();
  });
  const text = async (path: string, key = "boss") =>
    await (await fetch(`${fleet.proxy.url}${path}`, { headers: { authorization: `Bearer ${key}` } })).text();
  return {
    fleet,
    ledger,
    text,
    admin: async (path) => JSON.parse(await text(path)),
    ask: (body, key = "sk-search", init) =>
      fleet.post(
        "/v1/chat/completions",
        { model: "m", messages: [], ...body },
        { ...init, headers: { "x-api-key": key } },
      ),
  };
}

const usage = {
  prompt_tokens: 1000,
  completion_tokens: 10,
  total_tokens: 1010,
  prompt_tokens_details: { cached_tokens: 600 },
};
/** 400 × 1 + 600 × 0.1 + 10 × 4 dollars per million. */
const COST = "0.000500000";
const whole = answerJson({ choices: [{ message: { content: "hi" } }], usage });

const chunk = (content: string) => sse({ choices: [{ index: 0, delta: { content } }], usage: null });
const streamed: Behaviour = ({ body }, outgoing) => {
  beginStream(outgoing);
  outgoing.write(chunk("h") + chunk("i"));
  const isAsked = (body.stream_options as { include_usage?: boolean } | undefined)?.include_usage === true;
  outgoing.end(`${isAsked ? sse({ choices: [], usage }) : ""}${sse("[DONE]")}`);
};

test("rows and exports can be asked for those of an end user, or of a tenant", async () => {
  const gateway = await start([whole]);
  for (const user of ["ann", "bob"]) await (await gateway.ask({ user })).text();
  expect(await page(gateway, "?end_user=bob")).toMatchObject([{ end_user: "bob", cost: COST }]);
  const exported = (filter: string) => gateway.text(`/admin/ledger/export?format=jsonl&${filter}`);
  expect(JSON.parse(await exported("end_user=ann"))).toMatchObject({ end_user: "ann", tenant: "search" });
  expect(await exported("tenant=shop")).toBe("");
});

const page = async ({ admin }: Gateway, query = "") => (await admin(`/admin/ledger/requests${query}`)).data as Json[];

test.each([
  ["on one's own hardware costs its share of the price", "", "0.000250000", /, batch$/],
  ["of a paid API costs the full price, which the API charges", "engine: openai, ", COST, /million tokens$/],
])("a line of a batch %s", async (_, engine, cost, price) => {
  const file = FILE.replace("{name: m, ", `{name: m, ${engine}`);
  const inBatch: Policy = {
    name: "in a batch",
    handle: (request, sink, next) => {
      request.record.notes.set(NOTE.batch, "batch_1");
      return next(request, sink);
    },
  };
  const gateway = await start([whole], { file, inner: [inBatch] });
  expect((await gateway.ask({})).headers.get("x-millrace-cost")).toBe(cost);
  expect(await page(gateway)).toMatchObject([{ cost, attempts: [{ price: expect.stringMatching(price) }] }]);
});

test("a request under an alias has the price and the name of its model", async () => {
  const modelOf = (name: string) => (name === "m" ? "own" : name);
  const gateway = await start([whole], { file: FILE.replace("{name: m, ", "{name: own, "), modelOf });
  expect((await gateway.ask({})).headers.get("x-millrace-cost")).toBe(COST);
  expect(await page(gateway)).toMatchObject([{ model: "m", served: "own", cost: COST, attempts: [{ model: "own" }] }]);
});

test("a request leaves a row with its attempt, counts and cost, and the client sees the cost", async () => {
  const gateway = await start([whole]);
  const answer = await gateway.ask({});
  expect(answer.headers.get("x-millrace-cost")).toBe(COST);
  expect(((await answer.json()) as Json).usage).toEqual({ ...usage, cost: 0.0005 });
  const [row] = await page(gateway);
  expect(row).toMatchObject({
    tenant: "search",
    path: "/v1/chat/completions",
    model: "m",
    served: "m",
    stream: false,
    outcome: "answered",
    status: 200,
    error: "",
    cost: COST,
    saved: "0.000000000",
    notes: {},
  });
  expect(row.attempts).toEqual([
    expect.objectContaining({
      instance: "a",
      model: "m",
      outcome: "answered",
      status: 200,
      cost: COST,
      estimated: false,
      fresh: 400,
      cache_read: 600,
      cache_write: 0,
      output: 10,
      reasoning: 0,
      price: "configured: fresh $1, cache_read $0.1, cache_write $1, output $4 per million tokens",
    }),
  ]);
  expect(row.total_ms).toBeGreaterThanOrEqual(row.first_byte_ms);
  expect(row.attempts[0].first_byte_ms).toBeLessThanOrEqual(row.first_byte_ms);
});

test("an answer of Ollama's API has its cost, whole and as a stream", async () => {
  const gateway = await start([(received, outgoing) => (received.body.stream ? streamed : whole)(received, outgoing)]);
  const headers = { "x-api-key": "sk-search" };
  for (const stream of [true, false]) {
    const body = { model: "m", messages: [{ role: "user", content: "hi" }], stream };
    const answer = await gateway.fleet.post("/api/chat", body, { headers });
    const lines = (await answer.text()).trim().split("\n");
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ done: true, eval_count: 10, cost: 0.0005 });
  }
});

test("answers of messages and responses have their cost", async () => {
  const counts = { input_tokens: 400, cache_read_input_tokens: 600, output_tokens: 10 };
  const own = { input_tokens: 1000, input_tokens_details: { cached_tokens: 600 }, output_tokens: 10 };
  const completed = sse({ type: "response.completed", response: { usage: own } });
  const gateway = await start([
    (received, outgoing) => {
      const isMessage = received.path === "/v1/messages";
      if (!received.body.stream) return answerJson({ usage: isMessage ? counts : own })(received, outgoing);
      beginStream(outgoing);
      const ends = [{ type: "message_delta", usage: counts }, { type: "message_stop" }];
      outgoing.end(isMessage ? ends.map(sse).join("") : completed);
    },
  ]);
  const headers = { "x-api-key": "sk-search" };
  const body = { model: "m", messages: [], input: "hi", max_tokens: 9 };
  for (const path of ["/v1/messages", "/v1/responses"]) {
    for (const stream of [true, false]) {
      const text = await (await gateway.fleet.post(path, { ...body, stream }, { headers })).text();
      expect(text).toMatch(/"output_tokens":10,"cost":0\.0005(?:0*)\}/);
    }
  }
});

test("a stream is asked for its usage, and only a client that asked too gets it", async () => {
  const gateway = await start([streamed]);
  const plain = await (await gateway.ask({ stream: true, seed: 12345678901234 })).text();
  expect(plain).toBe(`${chunk("h")}${chunk("i")}${sse("[DONE]")}`.replaceAll(',"usage":null', ""));
  const asked = await (await gateway.ask({ stream: true, stream_options: { include_usage: true } })).text();
  const end = sse({ choices: [], usage: { ...usage, cost: 0.0005 } });
  expect(asked).toBe(`${chunk("h")}${chunk("i")}${end}${sse("[DONE]")}`);
  const refused = await (await gateway.ask({ stream: true, stream_options: { include_usage: false, x: 1 } })).text();
  expect(refused).toBe(plain);
  expect(gateway.fleet.standIns[0]!.received[2]!.body.stream_options).toEqual({ include_usage: true, x: 1 });
  expect((await page(gateway)).map(({ cost, stream }) => [cost, stream])).toEqual(Array(3).fill([COST, true]));
});

test("an answer that reports no counts costs an estimate, and is marked so", async () => {
  const silent = answerJson({ choices: [{ message: { content: "x".repeat(400) } }] });
  const gateway = await start([silent]);
  const answer = await gateway.ask({});
  expect(Number(answer.headers.get("x-millrace-cost"))).toBeGreaterThan(0);
  await answer.json();
  const [attempt] = (await page(gateway))[0]!.attempts;
  expect(attempt).toMatchObject({ outcome: "answered", estimated: true });
  expect(attempt.output).toBeGreaterThanOrEqual(100);
  expect(attempt.output).toBeLessThan(130);
});

test("an error costs nothing, even one that reports counts", async () => {
  const failed = { error: { message: "no" }, usage: { prompt_tokens: 1000, completion_tokens: 10 } };
  const gateway = await start([answerJson(failed, 500)]);
  const answer = await gateway.ask({});
  expect([answer.status, answer.headers.get("x-millrace-cost")]).toEqual([500, "0.000000000"]);
  await answer.json();
  const row = (await page(gateway))[0]!;
  expect(row).toMatchObject({ outcome: "answered", status: 500, cost: "0.000000000" });
  expect(row.attempts).toEqual([expect.objectContaining({ status: 500, output: null, cost: null })]);
});

test("each try is a row under its request, and the refused one costs nothing", async () => {
  const gateway = await start([answerJson({ error: {} }, 503), whole]);
  await (await gateway.ask({})).json();
  const [row] = await page(gateway);
  expect(row.attempts.map(({ instance, outcome, status, cost }: Json) => [instance, outcome, status, cost])).toEqual([
    ["a", "refused", 503, null],
    ["b", "answered", 200, COST],
  ]);
  expect(row.cost).toBe(COST);
  const spend = await gateway.admin("/admin/ledger/spend?group_by=status");
  expect(spend.data).toMatchObject([
    { status: 200, requests: 1, attempts: 1, cost: COST },
    { status: 503, requests: 0, attempts: 1, cost: "0.000000000" },
  ]);
});

test("a stream that the client leaves is charged for what was made, as an estimate", async () => {
  const gateway = await start([
    (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write([..."123456"].map(chunk).join(""));
    },
  ]);
  const aborter = new AbortController();
  const answer = await gateway.ask(
    { stream: true, messages: [{ role: "user", content: "x".repeat(4000) }] },
    undefined,
    {
      signal: aborter.signal,
    },
  );
  await answer.body!.getReader().read();
  aborter.abort();
  await expect.poll(() => page(gateway), { timeout: 5000 }).toHaveLength(1);
  const [row] = await page(gateway);
  expect(row).toMatchObject({ outcome: "cancelled", status: 499 });
  expect(row.attempts[0]).toMatchObject({ outcome: "cancelled", estimated: true, output: 5 });
  expect(row.attempts[0].fresh).toBeGreaterThan(500);
  expect(Number(row.cost)).toBeCloseTo((row.attempts[0].fresh + 20) / 1e6, 9);
});

test("an answer that breaks off, and one that no instance gives, have their errors", async () => {
  const gateway = await start([
    (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write(chunk("h"));
      setTimeout(() => outgoing.destroy(), 20);
    },
  ]);
  await (await gateway.ask({ stream: true })).text();
  await gateway.fleet.standIns[0]!.die();
  await (await gateway.ask({})).text();
  const rows = await page(gateway);
  expect(rows.map(({ outcome, status, error }) => [outcome, status, error])).toEqual([
    ["refused", 502, "upstream_failed"],
    ["broken", 502, "upstream_failed"],
  ]);
});

test("tenants see their own spend and nobody else's", async () => {
  const gateway = await start([whole]);
  for (const key of ["sk-search", "sk-shop", "sk-search"]) await (await gateway.ask({}, key)).json();
  const own = JSON.parse(await gateway.text("/v1/usage?group_by=model", "sk-search"));
  expect(own.data).toMatchObject([{ model: "m", requests: 2, cost: "0.001000000" }]);
  const all = await gateway.admin("/admin/ledger/spend?group_by=tenant");
  expect(all.data).toMatchObject([
    { tenant: "search", requests: 2, fresh: 800, output: 20 },
    { tenant: "shop", requests: 1 },
  ]);
  const refused = JSON.parse(await gateway.text("/v1/usage?group_by=tenant", "sk-search"));
  expect(refused.error.code).toBe("invalid_parameter");
  expect(JSON.parse(await gateway.text("/v1/usage", "sk-other")).error.code).toBe("invalid_api_key");
  expect(JSON.parse(await gateway.text("/admin/ledger/spend", "sk-search")).error.code).toBe("invalid_api_key");
});

test("without a ledger, the client's own usage says what turns it on", async () => {
  const gateway = await start([whole], { file: FILE.replace(/^ledger:.*$/m, "") });
  const { error } = JSON.parse(await gateway.text("/v1/usage", "sk-search"));
  expect(error).toMatchObject({ code: "not_found", message: expect.stringContaining("add ledger: {}") });
});

test("pages of requests follow their cursor and filters", async () => {
  const gateway = await start([whole]);
  for (let i = 0; i < 7; i++) await (await gateway.ask({}, i % 3 === 0 ? "sk-shop" : "sk-search")).json();
  const ids: string[] = [];
  let cursor = "";
  do {
    const { data, has_more, next_cursor } = await gateway.admin(
      `/admin/ledger/requests?limit=2&tenant=search${cursor}`,
    );
    ids.push(...data.map(({ id }: Json) => id));
    cursor = has_more ? `&cursor=${next_cursor}` : "";
  } while (cursor !== "");
  expect([ids.length, new Set(ids).size]).toEqual([4, 4]);
  expect(await page(gateway, `?id=${ids[1]}`)).toMatchObject([{ id: ids[1] }]);
  expect(await page(gateway, "?from=2100-01-01")).toEqual([]);
  for (const query of ["?limit=0", "?outcome=x", "?colour=red", "?from=yesterday"]) {
    expect((await gateway.admin(`/admin/ledger/requests${query}`)).error.code).toBe("invalid_parameter");
  }
});

test("an answer from a cache costs nothing, and is said to have saved its cost", async () => {
  const kept: Policy = {
    name: "cache",
    async handle({ record }, sink) {
      record.notes.set(NOTE.cache, "hit:exact");
      record.kept = { model: "m", usage: { fresh: 400, cacheRead: 600, cacheWrite: 0, output: 10, reasoning: 0 } };
      sink.begin({ status: 200, headers: { "content-type": "application/json" }, isEventStream: false });
      sink.end(Buffer.from(JSON.stringify({ choices: [], usage })));
      return { kind: "answered", status: 200 };
    },
  };
  const gateway = await start([whole], { inner: [kept] });
  const answer = await gateway.ask({});
  expect([answer.headers.get("x-millrace-cost"), ((await answer.json()) as Json).usage]).toEqual([
    "0.000000000",
    { ...usage, cost: 0 },
  ]);
  expect(await page(gateway)).toMatchObject([
    {
      served: "m",
      attempts: [],
      cost: "0.000000000",
      saved: COST,
      saved_by: "cache:exact",
      notes: { cache: "hit:exact" },
    },
  ]);
  expect((await gateway.admin("/admin/ledger/spend")).data).toMatchObject([{ requests: 1, hits: 1, saved: COST }]);
});

test("requests that a killed gateway left open are lost ones after the next start", async () => {
  const database = openDatabase(undefined);
  const silent: Behaviour = () => {};
  const first = await start([silent], { database });
  void first.ask({}).catch(() => {});
  await until(() => first.fleet.standIns[0]!.received.length === 1);
  // A second gateway on the database of the first, which never writes its row.
  const config = { file: FILE, database };
  const second = await start([whole], config);
  expect(await page(second)).toMatchObject([{ outcome: "lost", status: 0, tenant: "search", attempts: [] }]);
  await (await second.ask({})).json();
  expect(await page(second)).toHaveLength(2);
});

test("an export has all rows in each format, and no formulas", async () => {
  const gateway = await start([whole]);
  await (
    await gateway.fleet.post(
      "/v1/chat/completions",
      { model: "m" },
      { headers: { "x-api-key": "sk-shop", "x-request-id": "=1+1" } },
    )
  ).json();
  await (await gateway.ask({})).json();
  const [head, first, second] = (await gateway.text("/admin/ledger/export"))
    .split("\r\n")
    .map((line) => line.split(","));
  const cell = (line: string[], name: string) => line[head!.indexOf(name)];
  expect([cell(first!, "id")?.[0], cell(first!, "attempt_cost_dollars"), cell(second!, "tenant")]).not.toContain("=");
  expect([cell(first!, "tenant"), cell(first!, "attempt_cost_dollars"), cell(second!, "tenant")]).toEqual([
    "shop",
    COST,
    "search",
  ]);
  const lines = (await gateway.text("/admin/ledger/export?format=jsonl")).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).attempt_fresh_tokens)).toEqual([400, 400]);
});
