/** After an answer through the real proxy: feedback, retries, and their drift. */
import { expect, test } from "vitest";
import { chat } from "../../../test/helpers/cached-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { startSampled } from "../../../test/helpers/sampled-fleet.js";
import { answerJson, type Behaviour, until } from "../../../test/helpers/stand-in.js";
import type { CheckAnswer } from "../../gateway/quality/check-job.js";

test("feedback is taken from the request's own tenant, once, whether or not the request was sampled", async () => {
  const draws = [0, 0.9];
  await using gateway = await startSampled(answerJson(chat("Paris")), {
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
  {
    body: { request_id: "r", correction: "\u0000Paris" },
    status: 400,
    says: /correction: expected text without control/,
  },
  { body: { request_id: "r", comment: "a\u001b[2J" }, status: 400, says: /comment: expected text without control/ },
])("feedback $body is refused", async ({ body, status, says }) => {
  await using gateway = await startSampled(answerJson(chat("Paris")));
  const refused = await gateway.feedback(body);
  expect(refused.status).toBe(status);
  expect(refused.text).toMatch(says);
  expect((await gateway.feedback(body, "wrong")).status).toBe(401);
});

test("feedback may have lines, and an error repeats no huge key", async () => {
  await using gateway = await startSampled(answerJson(chat("Paris")));
  const { id } = await gateway.ask("a");
  const taken = await gateway.feedback({ request_id: id, correction: "Rome\r\n\tand Paris" });
  expect(taken.status).toBe(200);
  const refused = await gateway.feedback({ request_id: id, rating: "up", ["k".repeat(10_000)]: 1 });
  expect(refused.status).toBe(400);
  expect(refused.text.length).toBeLessThan(800);
});

test("a session that asks the same again soon is a retry of the answer before", async () => {
  await using gateway = await startSampled(answerJson(chat("Paris")));
  const ask = (content: string, user: string, key?: string) => gateway.ask(content, { user }, key);
  await ask("Where is  it?", "ann");
  await ask("where is it?", "ann");
  await ask("And when?", "ann");
  // A session of the same name is another one for another tenant, and so is a missing name.
  await ask("And when?", "ann", "sk-shop");
  await gateway.ask("And when?");
  await until(() => gateway.numSamples() === 5);
  expect(gateway.part.counts()!.judged.get("m")!.get("retry")).toEqual({ count: 2, failing: 1 });
});

test("a reload may change the header that names the session", async () => {
  let header = "x-session-id";
  await using gateway = await startSampled(answerJson(chat("Paris")), { sessionHeader: () => header });
  const ask = async (): Promise<void> => {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Where?" }] });
    const headers = { authorization: "Bearer sk-search", "x-chat": "c" };
    await (await fetch(`${gateway.proxy.url}/v1/chat/completions`, { method: "POST", headers, body })).text();
  };
  await ask();
  await ask();
  await until(() => gateway.numSamples() === 2);
  expect(gateway.part.counts()!.judged.get("m")!.get("retry")).toBeUndefined();
  header = "x-chat";
  await ask();
  await ask();
  await until(() => gateway.numSamples() === 4);
  expect(gateway.part.counts()!.judged.get("m")!.get("retry")).toEqual({ count: 1, failing: 1 });
});

test("a model that begins to decline is an alarm with the change that it came with", async () => {
  const time = { ms: Date.parse("2026-01-05T00:00Z") };
  let text = "Paris";
  const behaviour: Behaviour = (_, outgoing) => answerJson(chat(text))({} as never, outgoing);
  await using gateway = await startSampled(behaviour, {
    quality: "{sample: 100%, quiet-days: 1}",
    epochMs: () => time.ms,
  });
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
  // One alert over all tenants, and one for the only tenant.
  expect(metrics.sort()).toEqual([
    ["quality_refusal", "m", ""],
    ["quality_refusal", "m", "search"],
  ]);
});

test("feedback whose texts cannot be checked is an internal error, and a full queue is told apart", async () => {
  let runs: () => Promise<CheckAnswer> = () => Promise.resolve({ kind: "unreadable" });
  const runner = { run: () => runs(), end: () => {} };
  await using gateway = await startSampled(answerJson(chat("Paris")), { runner });
  const { id } = await gateway.ask("a");
  const body = { request_id: id, rating: "down", comment: "wrong" };
  await until(() => gateway.part.counts()!.drops.unreadable === 1);
  runs = () => Promise.reject(new Error("the thread has ended"));
  const failed = await gateway.feedback(body);
  expect([failed.status, JSON.parse(failed.text).error.code]).toEqual([500, "internal_error"]);
  const waiting: ((answer: CheckAnswer) => void)[] = [];
  runs = () => new Promise((resolve) => waiting.push(resolve));
  for (let i = 0; i < 128; i++) await gateway.ask(`question ${i}`);
  await until(() => waiting.length === 128);
  const full = await gateway.feedback(body);
  for (const resolve of waiting) resolve({ kind: "unreadable" });
  expect(JSON.parse(full.text).error.code).toBe("queue_full");
});
