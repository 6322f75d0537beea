/** The cost of lines that a paid API's batch endpoint answers, whatever changes in the meantime. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import { toFile } from "openai";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { stringify } from "yaml";
import type { Json } from "../../../test/helpers/json.js";
import { type Gateway, startGateway } from "../../../test/helpers/providers/gateway.js";
import { OpenaiBatches } from "../../../test/helpers/providers/openai-batches.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import type { ProviderServer } from "../../../test/helpers/providers/provider-server.js";
import { until } from "../../../test/helpers/until.js";
import { BatchLines } from "../../gateway/batches/batch-lines.js";
import { REQUESTS } from "../../gateway/ledger/ledger-tables.js";
import { parseConfig } from "../config/read-config.js";

const KEY = "sk-test-0123456789abcdef";
const ADMIN = "boss-0123456789";
const SHOP = "sk-shop-0123456789";
/** One line: 12 fresh tokens at $1 and 9 output tokens at $10 a million, at half price. */
const LINE_DOLLARS = 0.000051;

let batches: OpenaiBatches;
let provider: ProviderServer;
let gateway: Gateway;
let folder: string;

/** Tokens of a model without a list price. */
const PRICE: object = { input: "1", output: "10", "cache-read": "0" };

const configOf = (more: object = {}, isHanded = true, price: object | undefined = PRICE) => ({
  "admin-key": ADMIN,
  ledger: {},
  "managed-keys": true,
  "data-folder": folder,
  "api-keys": [{ tenant: "shop", key: SHOP, limits: { budget: { day: "100" } } }],
  models: [
    {
      name: "gpt",
      engine: "openai",
      provider: { "batch-endpoint": isHanded, "batch-price-share": 0.5 },
      ...(price === undefined ? {} : { price }),
      attach: [{ url: `${provider.url}/v1`, "api-key": KEY, "model-name": "gpt-own" }],
    },
  ],
  ...more,
});

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-charges-"));
  batches = new OpenaiBatches();
  provider = await startOpenaiServer({ keys: [KEY], batches });
});
afterEach(async () => {
  await gateway[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

async function call(path: string, { body, key = SHOP, method }: { body?: object; key?: string; method?: string } = {}) {
  const sent = body instanceof FormData ? body : body && JSON.stringify(body);
  const asked = {
    method: method ?? (body === undefined ? "GET" : "POST"),
    ...(sent === undefined ? {} : { body: sent }),
  };
  const response = await fetch(gateway.url + path, { ...asked, headers: { authorization: `Bearer ${key}` } });
  return (await response.json().catch(() => undefined)) as Json;
}

/** A batch of one line that the provider runs; it ends when the test sets `isHeld` to false. */
async function begin(key = SHOP, content = "Say hello"): Promise<string> {
  batches.isHeld = true;
  const body = { model: "gpt", messages: [{ role: "user", content }], max_tokens: 50 };
  const line = { custom_id: "a", method: "POST", url: "/v1/chat/completions", body };
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", await toFile(Buffer.from(JSON.stringify(line)), "in.jsonl"));
  const { id } = await call("/v1/files", { body: form, key });
  const asked = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h" };
  const batch = await call("/v1/batches", { body: asked, key });
  await until(() => (batches.batches[0]?.status === "in_progress" ? true : undefined));
  return batch.id;
}

async function end(id: string, key = SHOP): Promise<Json> {
  batches.isHeld = false;
  return await until(async () => {
    const batch = await call(`/v1/batches/${id}`, { key });
    return batch.status === "completed" ? batch : undefined;
  });
}

async function reload(config: object): Promise<void> {
  const machine = { cores: [], splits: new Map(), millraceSeats: 4 };
  await gateway.fleet.reload(parseConfig(stringify({ port: 0, ...config }), "millrace.yaml", process.env), machine);
}

/** Dollars that a scope has spent today, once no dollars are reserved. */
async function spent(key = SHOP, kind?: string): Promise<number> {
  return await until(async () => {
    const { scopes } = await call("/v1/key", { key });
    const { day } = scopes.find((each: Json) => each.budgets.day && (kind ?? each.kind) === each.kind).budgets;
    return Number(day.reserved) === 0 ? Number(day.spent) : undefined;
  });
}

test.each(["denies", "is away"])("a checker that %s when a request's answer comes is not asked again", async (how) => {
  let [isAllowing, numAsked] = [true, 0];
  const checker = createServer((asked, answer) => {
    numAsked++;
    asked.resume().on("end", () => {
      const isAway = !isAllowing && how === "is away";
      answer.writeHead(isAway ? 500 : 200, { "content-type": "application/json" });
      answer.end(JSON.stringify({ allowed: isAllowing, reason: "no" }));
    });
  });
  await new Promise<void>((resolve) => checker.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(checker.address() as AddressInfo).port}/check`;
  const guard = { name: "mod", on: ["request"], checker: { url, "on-failure": "fail-closed" }, action: "refuse" };
  gateway = await startGateway(configOf({ hooks: { guardrails: [guard] } }));
  const id = await begin();
  isAllowing = false;
  expect((await end(id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
  expect(await spent()).toBeCloseTo(LINE_DOLLARS, 9);
  expect(numAsked).toBe(1);
  checker.closeAllConnections();
  checker.close();
});

test("an answer that a guardrail refuses is charged", async () => {
  const guard = { name: "g", on: ["answer"], patterns: [{ name: "hello", regex: "Hello" }], action: "refuse" };
  gateway = await startGateway(configOf({ hooks: { guardrails: [guard] } }));
  expect((await end(await begin())).request_counts).toEqual({ total: 1, completed: 0, failed: 1 });
  expect(await spent()).toBeCloseTo(LINE_DOLLARS, 9);
});

test("what is redacted in a request is redacted in its record", async () => {
  const records = join(folder, "records");
  const guard = { name: "g", on: ["request"], find: ["email"], action: "redact" };
  gateway = await startGateway(configOf({ hooks: { guardrails: [guard], recorder: { folder: records } } }));
  await end(await begin(SHOP, "I am ann@example.com"));
  const text = await until(() => {
    const all = (existsSync(records) ? readdirSync(records) : []).map((name) =>
      readFileSync(join(records, name), "utf8"),
    );
    return all.join("").includes("I am") ? all.join("") : undefined;
  });
  expect(text).toContain("I am [email]");
  expect(text).not.toContain("ann@example.com");
});

test("lines under way cost what batches cost, although batch-endpoint is switched off meanwhile", async () => {
  gateway = await startGateway(configOf());
  const id = await begin();
  await reload(configOf({}, false));
  await end(id);
  expect(await spent()).toBeCloseTo(LINE_DOLLARS, 9);
});

test("kill -9 behind a line's result finds its charge and its row in the database", async () => {
  gateway = await startGateway(configOf());
  const id = await begin();
  const database = new Database(join(folder, "gateway.db"), { readonly: true });
  const first = (query: string) => database.prepare(query).raw().get([]) as number[];
  const { keep } = BatchLines.prototype;
  let atResult: unknown;
  const spy = vi.spyOn(BatchLines.prototype, "keep").mockImplementation(async function (this: BatchLines, ...given) {
    const [rows] = first(`SELECT count(*) FROM ${REQUESTS} WHERE status = 200`);
    const [charged] = first("SELECT max(used) FROM budget_meters");
    atResult = { rows, charged };
    await keep.apply(this, given);
  });
  try {
    await end(id);
  } finally {
    spy.mockRestore();
    database.close();
  }
  expect(atResult).toEqual({ rows: 1, charged: LINE_DOLLARS * 1e9 });
});

test.each([
  ["removed by a reload", undefined],
  ["raised by a reload", { input: "7", output: "70", "cache-read": "0" }],
  ["raised before a restart", { input: "7", output: "70", "cache-read": "0" }],
])("lines under way cost what they did when they were sent, although the price is %s", async (how, price) => {
  gateway = await startGateway(configOf());
  const id = await begin();
  const changed = { ...configOf(), models: [{ ...configOf().models[0], price }] };
  if (how.endsWith("reload")) await reload(changed);
  else {
    await gateway[Symbol.asyncDispose]();
    gateway = await startGateway(changed);
  }
  expect((await end(id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
  expect(await spent()).toBeCloseTo(LINE_DOLLARS, 9);
  const { data } = await call("/admin/ledger/requests", { key: ADMIN });
  expect(data.map(({ cost }: Json) => Number(cost))).toEqual([LINE_DOLLARS]);
});

test("answers of a model that is removed wait until it is back, and are charged then", async () => {
  gateway = await startGateway(configOf());
  const id = await begin();
  const other = { ...configOf().models[0], name: "other" };
  await reload({ ...configOf(), models: [other] });
  batches.isHeld = false;
  await new Promise((resolve) => setTimeout(resolve, 1000));
  expect((await call(`/v1/batches/${id}`)).status).toBe("in_progress");
  await reload(configOf());
  expect((await end(id)).request_counts).toEqual({ total: 1, completed: 1, failed: 0 });
  expect(await spent()).toBeCloseTo(LINE_DOLLARS, 9);
});

test("the organisation pays for the lines of a key that is revoked meanwhile", async () => {
  gateway = await startGateway(configOf());
  const admin = (path: string, body: object) => call(`/admin/${path}`, { body, key: ADMIN });
  await admin("orgs", { id: "acme", budgets: { day: { hard: "100" } } });
  const [first, second] = [
    await admin("keys", { org: "acme", name: "a" }),
    await admin("keys", { org: "acme", name: "b" }),
  ];
  const id = await begin(first.key);
  await call(`/admin/keys/${first.id}`, { method: "DELETE", key: ADMIN });
  expect((await end(id, second.key)).request_counts.completed).toBe(1);
  expect(await spent(second.key, "org")).toBeCloseTo(LINE_DOLLARS, 9);
});

test("an answer that is too long to be given is charged", async () => {
  batches.tamper = (lines) => lines.map((each) => each.replace("Hello", "x".repeat(18 * 2 ** 20)));
  gateway = await startGateway(configOf());
  expect((await end(await begin())).request_counts).toEqual({ total: 1, completed: 0, failed: 1 });
  expect(await spent()).toBeCloseTo(LINE_DOLLARS, 9);
});
