/** Sampling through the real proxy: what clients get, what is kept, and who may say what about it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import { chat, chunks } from "../../../test/helpers/cached-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, type Behaviour, beginStream, startFleet, until } from "../../../test/helpers/stand-in.js";
import { AlertStore } from "../../gateway/alerts/alert-store.js";
import { BufferSink } from "../../gateway/answer.js";
import { Cancellation } from "../../gateway/cancellation.js";
import type { Policy } from "../../gateway/pipeline.js";
import { type CheckAnswer, privatePatterns, runCheckJob } from "../../gateway/quality/check-job.js";
import { checkThread, type JobRunner } from "../../gateway/quality/sample-checker.js";
import { openDatabase } from "../../gateway/store/database.js";
import { sideOf } from "../../gateway/store/side-connection.js";
import { NOTE, RequestRecord } from "../../gateway/usage/record.js";
import { adminHandler } from "../admin.js";
import { parseConfig } from "../config/read-config.js";
import { authorizeBy } from "./authorize.js";
import { Ledger } from "./ledger.js";
import { QualityPart } from "./quality-part.js";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const fileOf = (quality: string) => `
admin-key: boss
ledger: {}
alerts: {}
quality: ${quality}
api-keys:
  - {tenant: search, key: sk-search}
  - {tenant: shop, key: sk-shop}
models:
  - {name: m, attach: [{url: "http://127.0.0.1:1"}]}
`;

/** The thread's work, in this one: tests need no compiled files, and can stop it. */
function inProcess(): JobRunner {
  const patterns = privatePatterns([]);
  return { run: (job) => runCheckJob(job, patterns), end: () => {} };
}

interface Started {
  readonly quality?: string;
  readonly runner?: JobRunner;
  readonly folder?: string;
  readonly random?: () => number;
  readonly epochMs?: () => number;
  /** Behind the sampling. */
  readonly inner?: readonly Policy[];
}

async function start(
  behaviour: Behaviour,
  { quality = "{sample: 100%}", runner = inProcess(), folder, random = () => 0, inner = [], epochMs }: Started = {},
) {
  const config = parseConfig(fileOf(quality), "millrace.yaml", {});
  const logger = pino({ level: "silent" });
  const database = openDatabase(folder);
  const authorize = authorizeBy(config.apiKeys);
  const modelOf = (name: string) => name;
  const ledger = new Ledger({ config: () => config, database: () => database, logger, modelOf, authorize });
  const version = { now: "aaaaaaaaaaaaaaaa" };
  const part = new QualityPart({
    config,
    database: () => database,
    logger,
    modelOf,
    versionOf: () => version.now,
    authorize,
    runner,
    random,
    ...(epochMs === undefined ? {} : { epochMs }),
  });
  const admin = adminHandler(adminTarget([part.adminApp()], () => config.adminKey));
  const fleet = await startFleet([behaviour], {
    proxy: {
      authorize,
      policies: [...ledger.policies(), ...part.policies(), ...inner],
      handleOther: (...request) => part.handle(...request) || admin(...request),
    },
  });
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    await fleet.stop();
    await part.close();
    await ledger.close();
    await sideOf(database).close();
    database.close();
  };
  closing.push(stop);
  const sent = async (path: string, body: object | undefined, key: string) => {
    const answer = await fetch(`${fleet.proxy.url}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, id: answer.headers.get("x-request-id") ?? "", text: await answer.text() };
  };
  return {
    part,
    version,
    alerts: () => new AlertStore(database).page(100, 10).map(({ alert }) => alert),
    proxy: fleet.proxy,
    stop,
    numSamples: () => [...(part.counts()?.samples.values() ?? [])].reduce((sum, each) => sum + each, 0),
    ask: (content: string, more: object = {}, key = "sk-search") =>
      sent("/v1/chat/completions", { model: "m", messages: [{ role: "user", content }], ...more }, key),
    post: (path: string, body: object) => sent(path, body, "sk-search"),
    feedback: (body: object, key = "sk-search") => sent("/v1/feedback", body, key),
    admin: async (path: string) => JSON.parse((await sent(`/admin/quality${path}`, undefined, "boss")).text) as Json,
  };
}

const REFUSAL = "I'm sorry, but I can't help with john@example.com.";

test("an answer is judged and kept without personal data, and the client gets its bytes as they were", async () => {
  const answer = chat(REFUSAL);
  const gateway = await start(answerJson(answer));
  const { text, id } = await gateway.ask("Who is ann@example.com, at +49 30 1234567?");
  expect(text).toBe(JSON.stringify(answer));
  await until(() => gateway.numSamples() === 1);
  const { data } = await gateway.admin("/samples?failing=true");
  expect(data).toMatchObject([
    {
      request_id: id,
      tenant: "search",
      model: "m",
      version: "aaaaaaaaaaaa",
      weight: 1,
      verdicts: { refusal: { failing: true, badness: 1 }, length: { failing: false } },
      feedback: null,
      text: {
        messages: [{ role: "user", content: "Who is [email], at [phone]?" }],
        answer: "I'm sorry, but I can't help with [email].",
        plain: true,
      },
    },
  ]);
  expect(JSON.stringify(data)).not.toContain("example.com");
  const report = await gateway.admin("?group_by=tenant");
  expect((report.data as Json[]).find(({ check }) => check === "refusal")).toMatchObject({
    model: "m",
    tenant: "search",
    judged: 1,
    failing: 1,
    failing_share: 1,
    state: "learning",
  });
  expect(report).toMatchObject({ sample: 1, changes: [{ model: "m", version: "aaaaaaaaaaaa" }] });
});

test("a stream is judged as a whole, and passes as it comes", async () => {
  const events = chunks("```js\nlet a");
  const gateway = await start((_, outgoing) => {
    beginStream(outgoing);
    for (const event of events) outgoing.write(event);
    outgoing.end();
  });
  expect((await gateway.ask("Write code", { stream: true })).text).toBe(events.join(""));
  await until(() => gateway.numSamples() === 1);
  const { data } = await gateway.admin("/samples?check=format");
  expect(data).toMatchObject([{ verdicts: { format: { failing: true } }, text: { answer: "```js\nlet a" } }]);
});

test("a dialect of each path is read", async () => {
  const answers: Record<string, object> = {
    "/v1/completions": { choices: [{ index: 0, text: "cut", finish_reason: "length", logprobs: null }] },
    "/v1/messages": {
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text: "cut" }],
      stop_reason: "max_tokens",
      usage: {},
    },
    "/v1/responses": {
      object: "response",
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output: [{ type: "message", content: [{ type: "output_text", text: "cut" }] }],
    },
  };
  const gateway = await start(({ path }, outgoing) => answerJson(answers[path]!)({} as never, outgoing));
  const bodies = {
    "/v1/completions": { prompt: "a" },
    "/v1/messages": {
      max_tokens: 1,
      system: "b",
      messages: [{ role: "user", content: [{ type: "text", text: "a" }] }],
    },
    "/v1/responses": { instructions: "b", input: [{ role: "user", content: [{ type: "input_text", text: "a" }] }] },
  };
  for (const [path, body] of Object.entries(bodies)) await gateway.post(path, { model: "m", ...body });
  await until(() => gateway.numSamples() === 3);
  const { data } = await gateway.admin("/samples");
  for (const sample of data as Json[]) {
    expect(sample).toMatchObject({ verdicts: { length: { failing: true } }, text: { answer: "cut" } });
    const { messages } = sample.text as { messages: Json[] };
    expect(messages.at(-1)).toEqual({ role: "user", content: "a" });
    expect(messages).toHaveLength(sample.path === "/v1/completions" ? 1 : 2);
  }
});

test("answers of a cache, and what the gateway asks for itself, are no samples; lines of batches are", async () => {
  const cache: Policy = {
    name: "cache",
    handle: (request, sink, next) => {
      if (request.body.seed === 1) request.record.notes.set(NOTE.cache, "hit:exact");
      return next(request, sink);
    },
  };
  const gateway = await start(answerJson(chat("Paris")), { inner: [cache] });
  await gateway.ask("kept", { seed: 1 });
  const own = async (content: string, batch?: string) => {
    const record = new RequestRecord();
    if (batch !== undefined) record.notes.set(NOTE.batch, batch);
    const body = { model: "m", messages: [{ role: "user", content }] };
    const terms = { id: content, path: "/v1/chat/completions", caller: { tenant: "shop" }, record };
    await gateway.proxy.submit({ ...terms, body, cancellation: new Cancellation() }, new BufferSink());
  };
  await own("audit");
  await own("line", "batch_1");
  await gateway.ask("asked");
  await until(() => gateway.numSamples() === 2);
  const { data } = await gateway.admin("/samples");
  const asked = (data as { text: { messages: { content: string }[] } }[]).map(({ text }) => text.messages[0]!.content);
  expect(asked).toEqual(["asked", "line"]);
});

test("failed requests are no samples, and answers in no known form are counted", async () => {
  let status = 500;
  const gateway = await start((_, outgoing) => answerJson({ nothing: true }, status)({} as never, outgoing));
  await gateway.ask("a");
  status = 200;
  await gateway.ask("a");
  await until(() => gateway.part.counts()!.drops.unreadable === 1);
  expect(gateway.numSamples()).toBe(0);
});

test("feedback is taken from the request's own tenant, once, whether or not the request was sampled", async () => {
  const draws = [0, 0.9];
  const gateway = await start(answerJson(chat("Paris")), {
    quality: "{sample: 50%}",
    random: () => draws.shift() ?? 0.9,
  });
  const sampled = await gateway.ask("Where?");
  const other = await gateway.ask("Where?");
  await until(() => gateway.numSamples() === 1);
  expect(await gateway.feedback({ request_id: sampled.id, rating: "down" }, "sk-shop")).toMatchObject({ status: 404 });
  const taken = await gateway.feedback({ request_id: sampled.id, rating: "down", correction: "Rome, says a@b.com" });
  expect(JSON.parse(taken.text)).toEqual({ request_id: sampled.id, model: "m", score: -1 });
  await gateway.feedback({ request_id: sampled.id, score: -0.5, correction: "Rome" });
  expect((await gateway.feedback({ request_id: other.id, rating: "up" })).status).toBe(200);
  const { data } = await gateway.admin("/samples?check=feedback");
  expect(data).toMatchObject([
    { feedback: { score: -0.5, correction: "Rome" }, verdicts: { refusal: { failing: false } } },
  ]);
  const sums = (await gateway.admin("")).data as Json[];
  expect(sums.find(({ check }) => check === "feedback")).toMatchObject({ judged: 2, failing: 1, mean: 0.5 });
});

test.each([
  { body: { request_id: "r" }, status: 400, says: /rating, score or correction/ },
  { body: { request_id: "r", rating: "up", score: 1 }, status: 400, says: /rating or score/ },
  { body: { request_id: "r", score: 2 }, status: 400, says: /score/ },
  { body: { request_id: "r", stars: 5 }, status: 400, says: /stars/ },
  { body: { request_id: "nobody's", rating: "up" }, status: 404, says: /answered request of this tenant/ },
  { body: { request_id: "r", rating: "up", comment: "a".repeat(5000) }, status: 400, says: /comment/ },
])("feedback $body is refused", async ({ body, status, says }) => {
  const gateway = await start(answerJson(chat("Paris")));
  const refused = await gateway.feedback(body);
  expect(refused.status).toBe(status);
  expect(refused.text).toMatch(says);
  expect((await gateway.feedback(body, "wrong")).status).toBe(401);
});

test("checks that do not end lose samples, and no request waits for them", async () => {
  const waiting: ((answer: CheckAnswer) => void)[] = [];
  const runner = { run: () => new Promise<CheckAnswer>((resolve) => waiting.push(resolve)), end: () => {} };
  const gateway = await start(answerJson(chat("Paris")), { runner });
  for (let i = 0; i < 260; i++) expect((await gateway.ask(`question ${i}`)).status).toBe(200);
  expect(waiting).toHaveLength(256);
  await until(() => gateway.part.counts()!.drops.queue_full === 4);
  for (const resolve of waiting) resolve({ kind: "unreadable" });
});

test("what is kept survives a restart and is bounded in bytes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-quality-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const quality = "{sample: 100%, keep: 1KiB}";
  const behaviour = answerJson(chat("word ".repeat(60)));
  const first = await start(behaviour, { folder, quality });
  for (let i = 0; i < 6; i++) await first.ask(`question ${i} of ann${i}@example.com`);
  await until(() => first.numSamples() === 6);
  await first.stop();
  const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), "latin1"));
  expect(files.join("")).toContain("question 5 of [email]");
  expect(files.join("")).not.toContain("example.com");
  const second = await start(behaviour, { folder, quality });
  const data = (await second.admin("/samples")).data as Json[];
  expect(data).toHaveLength(6);
  expect(data.map(({ text }) => text !== null)).toEqual([true, true, false, false, false, false]);
  expect(second.part.counts()!.textBytes).toBeGreaterThan(0);
  expect(second.part.counts()!.textBytes).toBeLessThanOrEqual(1024);
});

test("the compiled thread judges as this one does, with the operator's own patterns", async () => {
  const runner = checkThread([{ name: "staff", regex: "E[0-9]{6}", isWholeWord: true }]);
  const gateway = await start(answerJson(chat("It was E123456.")), { runner });
  await gateway.ask("Who?");
  await until(() => gateway.numSamples() === 1);
  const { data } = await gateway.admin("/samples");
  expect(data).toMatchObject([{ text: { answer: "It was [staff]." }, verdicts: { length: { failing: false } } }]);
});

test("a session that asks the same again soon is a retry of the answer before", async () => {
  const gateway = await start(answerJson(chat("Paris")));
  const ask = (content: string, user: string, key?: string) => gateway.ask(content, { user }, key);
  await ask("Where is  it?", "ann");
  await ask("where is it?", "ann");
  await ask("And when?", "ann");
  // Another tenant's session of the same name is another one, and so is one without a name.
  await ask("And when?", "ann", "sk-shop");
  await gateway.ask("And when?");
  await until(() => gateway.numSamples() === 5);
  expect(gateway.part.counts()!.judged.get("m")!.get("retry")).toEqual({ count: 2, failing: 1 });
});

test("a model that begins to decline is an alarm with the change that it came with", async () => {
  const time = { ms: Date.parse("2026-01-05T00:00Z") };
  let text = "Paris";
  const behaviour: Behaviour = (_, outgoing) => answerJson(chat(text))({} as never, outgoing);
  const gateway = await start(behaviour, { quality: "{sample: 100%, quiet-days: 1}", epochMs: () => time.ms });
  const ask = async (count: number) => {
    for (let i = 0; i < count; i += 20) {
      await Promise.all(Array.from({ length: 20 }, () => gateway.ask("Where?")));
      time.ms += 20 * 2 * 60_000;
    }
  };
  await ask(1100);
  await until(() => gateway.numSamples() === 1100);
  const changedMs = time.ms;
  gateway.version.now = "bbbbbbbbbbbbbbbb";
  text = "I'm sorry, but I can't help with that.";
  await ask(60);
  await until(() => gateway.numSamples() === 1160);
  const report = (await gateway.admin("")).data as Json[];
  expect(report.find(({ check }) => check === "refusal")).toMatchObject({
    state: "drifted",
    usual: 0,
    drift: {
      usual: 0,
      change: { at: new Date(changedMs).toISOString(), version: "bbbbbbbbbbbb", before: "aaaaaaaaaaaa" },
    },
  });
  expect(report.find(({ check }) => check === "length")).toMatchObject({ state: "steady", drift: null });
  expect(gateway.part.counts()!.drifted).toContainEqual(expect.objectContaining({ model: "m", name: "refusal" }));
  const metrics = gateway.alerts().map(({ metric, model, tenant }) => [metric, model, tenant]);
  // Of all tenants, and of the one that there is.
  expect(metrics.sort()).toEqual([
    ["quality_refusal", "m", ""],
    ["quality_refusal", "m", "search"],
  ]);
});

test("tenants that are not named are not sampled", async () => {
  const gateway = await start(answerJson(chat("Paris")), { quality: '{sample: 100%, tenants: ["sh*"]}' });
  await gateway.ask("a");
  await gateway.ask("b", {}, "sk-shop");
  await until(() => gateway.numSamples() === 1);
  expect(await gateway.admin("/samples")).toMatchObject({ data: [{ tenant: "shop" }] });
});
