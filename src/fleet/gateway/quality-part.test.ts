/** Sampling through the real proxy: the clients' answers, and the kept samples. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { chat, chunks } from "../../../test/helpers/cached-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { startSampled } from "../../../test/helpers/sampled-fleet.js";
import { answerJson, beginStream, until } from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";
import { BufferSink } from "../../gateway/answer.js";
import { Cancellation } from "../../gateway/cancellation.js";
import type { Policy } from "../../gateway/pipeline.js";
import type { CheckAnswer } from "../../gateway/quality/check-job.js";
import { checkThread } from "../../gateway/quality/sample-checker.js";
import { NOTE, RequestRecord } from "../../gateway/usage/record.js";

const REFUSAL = "I'm sorry, but I can't help with john@example.com.";

test("an answer is judged and kept without personal data, and the client gets its bytes as they were", async () => {
  const answer = chat(REFUSAL);
  await using gateway = await startSampled(answerJson(answer));
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
  await using gateway = await startSampled((_, outgoing) => {
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
  await using gateway = await startSampled(({ path }, outgoing) => answerJson(answers[path]!)({} as never, outgoing));
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
  await using gateway = await startSampled(answerJson(chat("Paris")), { inner: [cache] });
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
  await using gateway = await startSampled((_, outgoing) =>
    answerJson({ nothing: true }, status)({} as never, outgoing),
  );
  await gateway.ask("a");
  status = 200;
  await gateway.ask("a");
  await until(() => gateway.part.counts()!.drops.unreadable === 1);
  expect(gateway.numSamples()).toBe(0);
});

test("requests without a new answer take no sample from those that are owed", async () => {
  const cache: Policy = {
    name: "cache",
    handle: async (request, sink, next) => {
      if (request.body.seed === 1) request.record.notes.set(NOTE.cache, "hit:exact");
      if (request.body.seed === 2) throw new MillraceError("queue_full", "expected a free place, got none");
      return await next(request, sink);
    },
  };
  let status = 500;
  const quality = "{sample: 0.0001%, at-least: 1}";
  const behaviour: Parameters<typeof startSampled>[0] = (_, outgoing) =>
    answerJson(chat("Paris"), status)({} as never, outgoing);
  await using gateway = await startSampled(behaviour, { inner: [cache], quality, random: () => 0.5 });
  await gateway.ask("fails");
  status = 200;
  await gateway.ask("kept", { seed: 1 });
  await gateway.ask("refused", { seed: 2 });
  await gateway.ask("new");
  await gateway.ask("more than owed");
  await until(() => gateway.numSamples() === 1);
  const { data } = await gateway.admin("/samples");
  expect(data).toMatchObject([{ text: { messages: [{ content: "new" }] } }]);
});

test("checks that do not end lose samples, and no request waits for them", async () => {
  const waiting: ((answer: CheckAnswer) => void)[] = [];
  const runner = { run: () => new Promise<CheckAnswer>((resolve) => waiting.push(resolve)), end: () => {} };
  await using gateway = await startSampled(answerJson(chat("Paris")), { runner });
  for (let i = 0; i < 260; i++) expect((await gateway.ask(`question ${i}`)).status).toBe(200);
  expect(waiting).toHaveLength(128);
  await until(() => gateway.part.counts()!.drops.queue_full === 132);
  for (const resolve of waiting) resolve({ kind: "unreadable" });
});

test("what is kept survives a restart and is bounded in bytes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-quality-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const quality = "{sample: 100%, keep: 1KiB}";
  const behaviour = answerJson(chat("word ".repeat(60)));
  await using first = await startSampled(behaviour, { folder, quality });
  for (let i = 0; i < 6; i++) await first.ask(`question ${i} of ann${i}@example.com`);
  await until(() => first.numSamples() === 6);
  await first.stop();
  const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), "latin1"));
  expect(files.join("")).toContain("question 5 of [email]");
  expect(files.join("")).not.toContain("example.com");
  await using second = await startSampled(behaviour, { folder, quality });
  const data = (await second.admin("/samples")).data as Json[];
  expect(data).toHaveLength(6);
  expect(data.map(({ text }) => text !== null)).toEqual([true, true, false, false, false, false]);
  expect(second.part.counts()!.textBytes).toBeGreaterThan(0);
  expect(second.part.counts()!.textBytes).toBeLessThanOrEqual(1024);
});

test("keep: 0B keeps no text, and takes those away that are there", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-quality-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await using first = await startSampled(answerJson(chat("Paris")), { folder });
  await first.ask("a");
  await until(() => first.part.counts()!.textBytes > 0);
  await first.stop();
  await using second = await startSampled(answerJson(chat("Paris")), { folder, quality: "{sample: 100%, keep: 0B}" });
  await second.ask("b");
  await until(() => second.numSamples() === 1);
  expect((await second.admin("/samples")).data).toMatchObject([{ text: null }, { text: null }]);
  expect(second.part.counts()!.textBytes).toBe(0);
});

test("the compiled thread judges as this one does, with the operator's own patterns", async () => {
  const runner = checkThread([{ name: "staff", regex: "E[0-9]{6}", isWholeWord: true }]);
  await using gateway = await startSampled(answerJson(chat("It was E123456.")), { runner });
  await gateway.ask("Who?");
  await until(() => gateway.numSamples() === 1);
  const { data } = await gateway.admin("/samples");
  expect(data).toMatchObject([{ text: { answer: "It was [staff]." }, verdicts: { length: { failing: false } } }]);
});

test("tenants that are not named are not sampled", async () => {
  await using gateway = await startSampled(answerJson(chat("Paris")), { quality: '{sample: 100%, tenants: ["sh*"]}' });
  await gateway.ask("a");
  await gateway.ask("b", {}, "sk-shop");
  await until(() => gateway.numSamples() === 1);
  expect(await gateway.admin("/samples")).toMatchObject({ data: [{ tenant: "shop" }] });
});

test("what is kept of a tenant, or of one request, can be deleted", async () => {
  await using gateway = await startSampled(answerJson(chat("Paris")));
  const { id } = await gateway.ask("a");
  await gateway.ask("b");
  await gateway.ask("c", {}, "sk-shop");
  await until(() => gateway.numSamples() === 3);
  await gateway.feedback({ request_id: id, rating: "down", comment: "wrong" });
  const before = gateway.part.counts()!.textBytes;
  expect(await gateway.admin(`/samples?tenant=shop&request_id=${id}`, "DELETE")).toEqual({ deleted: 0 });
  expect(await gateway.admin(`/samples?tenant=search&request_id=${id}`, "DELETE")).toEqual({ deleted: 1 });
  expect(await gateway.admin("/samples?check=feedback")).toMatchObject({ data: [] });
  expect(gateway.part.counts()!.textBytes).toBeLessThan(before);
  await gateway.admin("/samples?tenant=search", "DELETE");
  await gateway.admin("/samples?tenant=shop", "DELETE");
  expect(await gateway.admin("/samples")).toMatchObject({ data: [] });
  expect(gateway.part.counts()!.textBytes).toBe(0);
  expect(await gateway.admin("/samples", "DELETE")).toMatchObject({ error: { code: "invalid_parameter" } });
});
