/**
 * Length limits through the real proxy: the upstream's request, the ledger, the metrics, and the state of the next
 * process.
 */
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { answerJson, type Behaviour, beginStream, sse, startFleet, until } from "../../../test/helpers/stand-in.js";
import { usageAsker } from "../../gateway/ask-usage.js";
import { createLedgerTables } from "../../gateway/ledger/ledger-tables.js";
import type { Policy } from "../../gateway/pipeline.js";
import { withModel } from "../../gateway/request.js";
import { openDatabase } from "../../gateway/store/database.js";
import { parseConfig } from "../config/read-config.js";
import { Ledger } from "./ledger.js";
import { createLengths } from "./length-policy.js";
import type { PolicyContext } from "./policy-context.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Answers of 40 tokens, or fewer if the limit is lower, in each API. */
const forty: Behaviour = ({ body, path }, outgoing) => {
  const limit = (body.max_tokens ?? body.max_completion_tokens ?? 40) as number;
  const [output, isCut] = [Math.min(40, limit), limit < 40];
  const usage = { prompt_tokens: 5, completion_tokens: output, total_tokens: 5 + output };
  const content = 'He said: "finish_reason":"length".';
  if (path === "/v1/messages") {
    const counts = { input_tokens: 5, output_tokens: output };
    const stop = isCut ? "max_tokens" : "end_turn";
    return answerJson({ content: [{ type: "text", text: content }], stop_reason: stop, usage: counts })(
      { body, path } as never,
      outgoing,
    );
  }
  const finish_reason = isCut ? "length" : "stop";
  if (body.stream !== true) {
    const choices = [{ index: 0, message: { content }, finish_reason }];
    return answerJson({ choices, usage })({ body, path } as never, outgoing);
  }
  beginStream(outgoing);
  outgoing.write(sse({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }));
  outgoing.write(sse({ choices: [{ index: 0, delta: {}, finish_reason }] }));
  outgoing.end(sse({ choices: [], usage }) + sse("[DONE]"));
};

/** Stands for the policy of routes. */
const toModel: Policy = { name: "route", handle: (request, sink, next) => next(withModel(request, "m"), sink) };

async function start(rules: string, database = openDatabase(undefined), virtual = "") {
  const file = `{ledger: {}, models: [{name: m, ${rules}attach: [{url: "http://127.0.0.1:1"}]},
    {name: large, max-tokens: {cap: 20}, attach: [{url: "http://127.0.0.1:1"}]}]${virtual}}`;
  const config = parseConfig(file, "millrace.yaml", {});
  const counted: string[] = [];
  const modelOf = (name: string) => name;
  const ledger = new Ledger({
    config: () => config,
    database: () => database,
    logger: pino({ level: "silent" }),
    modelOf,
    authorize: () => ({ tenant: "" }),
  });
  ledger.open();
  const metrics = {
    cacheAnswered: () => {},
    answerEnded: (name: string, limit: string, isTruncated: boolean) => counted.push(`${name} ${limit} ${isTruncated}`),
  };
  const models = { resolve: modelOf, engine: () => "vllm", version: () => undefined };
  const context = { config: () => config, database: () => database, models, metrics } as unknown as PolicyContext;
  const fleet = await startFleet([forty], {
    proxy: {
      policies: [...ledger.policies(), toModel, createLengths(context), usageAsker],
      virtualModels: () => ["r", "also-r", "c"],
    },
  });
  const stop = async () => {
    await fleet.stop();
    await ledger.close();
  };
  closing.push(stop);
  const ask = async (body: object = {}, path = "/v1/chat/completions") => {
    const response = await fleet.post(path, { model: "m", messages: [], ...body });
    await response.text();
    return fleet.standIns[0]!.received.at(-1)!.body.max_tokens;
  };
  const truncated = () =>
    (database.prepare("SELECT sum(requests) AS n, sum(truncated) AS cut FROM ledger_hours").get() ?? {}) as {
      readonly n: number;
      readonly cut: number;
    };
  return { ask, counted, truncated, database, stop };
}

test("answers that reach their limit are counted, whatever their text says", async () => {
  const { ask, counted, truncated } = await start("max-tokens: {default: 30, cap: 60}, ");
  expect(await ask()).toBe(30);
  expect(await ask({ stream: true })).toBe(30);
  expect(await ask({ max_tokens: 50 })).toBe(50);
  expect(await ask({ max_tokens: 80 }, "/v1/messages")).toBe(60);
  expect(await ask({ max_tokens: 8 }, "/v1/messages")).toBe(8);
  const expected = ["m policy true", "m policy true", "m client false", "m policy false", "m client true"];
  expect(counted).toEqual(expected);
  await until(() => truncated().n === 5);
  expect(truncated().cut).toBe(3);
});

test("the next process knows the ledger's answers", async () => {
  const database = openDatabase(undefined);
  const first = await start("max-tokens: {default: auto}, ", database);
  for (let i = 0; i < 100; i++) expect(await first.ask()).toBeUndefined();
  expect(await first.ask()).toBeGreaterThanOrEqual(60);
  await until(() => first.truncated().n === 101);
  await first.stop();
  closing.pop();
  const next = await start("max-tokens: {default: auto}, ", database);
  expect(await next.ask()).toBeGreaterThanOrEqual(60);
  expect(await next.ask({ max_tokens: 500 })).toBe(500);
});

test("the ledger's answers that tell nothing of their length are left out", async () => {
  const database = openDatabase(undefined);
  const first = await start("", database);
  for (let i = 0; i < 150; i++) await first.ask({ max_tokens: 4 });
  for (let i = 0; i < 100; i++) await first.ask({ n: 4 });
  await until(() => first.truncated().n === 250);
  await first.stop();
  closing.pop();
  const next = await start("max-tokens: {default: auto}, ", database);
  const limit = await next.ask();
  // Four answers have forty tokens in total.
  expect(limit).toBeGreaterThanOrEqual(15);
  expect(limit).toBeLessThan(20);
});

test("the ledger's answers to a route's alias are the route's", async () => {
  const database = openDatabase(undefined);
  const route = ", routes: [{name: r, aliases: [also-r], rules: [{to: m}], max-tokens: {default: auto}}]";
  const first = await start("", database, route);
  for (let i = 0; i < 100; i++) expect(await first.ask({ model: "also-r" })).toBeUndefined();
  await until(() => first.truncated().n === 100);
  await first.stop();
  closing.pop();
  const next = await start("", database, route);
  expect(await next.ask({ model: "r" })).toBeGreaterThanOrEqual(60);
});

test("a model's cap holds through a route and a cascade", async () => {
  const virtual = `, cascades: [{name: c, small: m, large: large, min-logprob: -1}],
    routes: [{name: r, aliases: [also-r], rules: [{to: c}], max-tokens: {default: 30, cap: 35}}]`;
  const { ask, counted } = await start("max-tokens: {cap: 25}, ", undefined, virtual);
  expect(await ask({ model: "also-r", max_tokens: 500 })).toBe(20);
  expect(await ask({ model: "c" })).toBe(20);
  expect(await ask({ max_tokens: 500 })).toBe(25);
  expect(counted).toEqual(["r policy true", "c policy true", "m policy true"]);
});

test("a ledger of an earlier version gets the new columns", () => {
  const database = openDatabase(undefined);
  createLedgerTables(database);
  database.exec("ALTER TABLE ledger_hours DROP COLUMN truncated");
  database.exec("ALTER TABLE ledger_requests DROP COLUMN max_tokens");
  database.exec("ALTER TABLE ledger_requests DROP COLUMN answers");
  const config = parseConfig("{ledger: {}, models: [{name: m, attach: [{url: 'http://127.0.0.1:1'}]}]}", "f", {});
  const logger = pino({ level: "silent" });
  const ledger = new Ledger({
    config: () => config,
    database: () => database,
    logger,
    modelOf: (name) => name,
    authorize: () => ({ tenant: "" }),
  });
  ledger.open();
  closing.push(() => ledger.close());
  expect(database.prepare("SELECT truncated FROM ledger_hours").all()).toEqual([]);
  expect(database.prepare("SELECT max_tokens, answers FROM ledger_requests").all()).toEqual([]);
});
