import { expect, test } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { type AnswerHead, BufferSink } from "../answer.js";
import { CostSink } from "./cost-sink.js";

const USAGE = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const PRICED = { hasHeader: false, hasUsage: true, isPriced: () => true, cost: () => 1_500n };
const JSON_HEAD: AnswerHead = { status: 200, headers: { "content-type": "application/json" }, isEventStream: false };
const STREAM_HEAD: AnswerHead = { status: 200, headers: { "content-type": "text/event-stream" }, isEventStream: true };

const event = (data: object | string): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
const text = (content: string, more: object = {}) =>
  event({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });
const DONE = event("[DONE]");

function sent(writes: readonly string[], head = STREAM_HEAD, terms = PRICED): string {
  const buffer = new BufferSink();
  const sink = new CostSink(buffer, terms);
  sink.begin(head);
  for (const each of writes) sink.write(Buffer.from(each));
  sink.end();
  return buffer.answer()!.body.toString();
}

const last = (usage: object) => event({ choices: [], usage });
const lastChoice = (usage: object) => event({ choices: [{ index: 0, finish_reason: "stop" }], usage });

test.each<[string, (usage: object) => readonly string[], object]>([
  ["behind all choices", (usage) => [text("ü"), last(usage), DONE], USAGE],
  ["in one piece with the rest", (usage) => [text("ü") + last(usage) + DONE], USAGE],
  ["with the end of the choice", (usage) => [text("ü"), lastChoice(usage), DONE], USAGE],
  ["in place of the upstream's own", (usage) => [text("ü"), last(usage), DONE], { cost: 7, ...USAGE }],
  ["before a comment", (usage) => [text("ü"), last(usage), ": alive\n\n", DONE], USAGE],
  ["alone", (usage) => [text("ü"), last(usage), DONE], {}],
])("the last report of a stream has its cost, %s", (_, writes, usage) => {
  const { cost: _cost, ...counts } = usage as { readonly cost?: number };
  expect(sent(writes(usage))).toBe(writes({ ...counts, cost: 0.0000015 }).join(""));
});

test("reports of single choices stay as they are, and hold nothing back", () => {
  const each = [0, 1].map((index) => event({ choices: [{ index, finish_reason: "stop" }], usage: USAGE }));
  const running = text("a", { usage: USAGE });
  expect(sent([running, ...each, last(USAGE), DONE])).toBe(
    [running, ...each, last({ ...USAGE, cost: 0.0000015 }), DONE].join(""),
  );
  const buffer = new BufferSink();
  const sink = new CostSink(buffer, PRICED);
  sink.begin(STREAM_HEAD);
  sink.write(Buffer.from(running));
  expect(buffer.numBytes).toBe(Buffer.byteLength(running));
  for (const one of each) sink.write(Buffer.from(one));
  // The second may be the last.
  expect(buffer.numBytes).toBe(Buffer.byteLength(running + each[0]));
});

test("a whole answer has its cost, and the length that it then has", () => {
  const body = JSON.stringify({ choices: [{ message: { content: 'ü "usage":{} {"usage":{}}' } }], usage: USAGE });
  const buffer = new BufferSink();
  const sink = new CostSink(buffer, PRICED);
  sink.begin({ ...JSON_HEAD, headers: { ...JSON_HEAD.headers, "content-length": Buffer.byteLength(body) } });
  for (const byte of Buffer.from(body)) sink.write(Buffer.of(byte));
  sink.end();
  const { head, body: got } = buffer.answer()!;
  expect(got.toString()).toBe(body.replace(/\}\}$/, ',"cost":0.0000015}}'));
  expect(head.headers["content-length"]).toBe(got.length);
});

test.each([
  ["without a price", JSON_HEAD, { ...PRICED, isPriced: () => false }],
  ["of another path", JSON_HEAD, { ...PRICED, hasUsage: false }],
  ["that is compressed", { ...JSON_HEAD, headers: { "content-encoding": "gzip" } }, PRICED],
  ["that is an error", { ...JSON_HEAD, status: 500 }, PRICED],
])("an answer %s stays as it is, whole or as a stream", (_, head, terms) => {
  const body = JSON.stringify({ choices: [], usage: USAGE });
  expect(sent([body], head, terms)).toBe(body);
  const events = [text("a"), last(USAGE), DONE];
  expect(sent(events, { ...head, isEventStream: true }, terms)).toBe(events.join(""));
});

test("an answer that breaks off keeps what has come", () => {
  const report = last(USAGE);
  const buffer = new BufferSink();
  const sink = new CostSink(buffer, PRICED);
  sink.begin(STREAM_HEAD);
  sink.write(Buffer.from(report));
  sink.breakOff(new MillraceError("upstream_failed", "gone"));
  expect(buffer.answer()!.body.toString()).toBe(report);
});

test("nothing is lost where the client reads slowly: each write is taken, and says that no more is welcome", () => {
  const written: string[] = [];
  class SlowSink extends BufferSink {
    override write(bytes: Buffer): boolean {
      written.push(bytes.toString());
      super.write(bytes);
      return false;
    }
  }
  const sink = new CostSink(new SlowSink(), PRICED);
  sink.begin(STREAM_HEAD);
  const writes = [text("a") + lastChoice(USAGE), text("b") + lastChoice(USAGE), text("c"), last(USAGE), DONE];
  const answers = writes.map((each) => sink.write(Buffer.from(each)));
  sink.end();
  expect(written.join("")).toBe([...writes.slice(0, 3), last({ ...USAGE, cost: 0.0000015 }), DONE].join(""));
  // Held bytes alone keep no one from sending more.
  expect(answers).toEqual([false, false, false, true, true]);
});

test("events whose lines end with a carriage return, too, are told apart", () => {
  const crlf = (each: string) => each.replaceAll("\n", "\r\n");
  const whole = (cost: object) => crlf([text("a"), text("b"), last({ ...USAGE, ...cost }), DONE].join(""));
  expect(sent([whole({})])).toBe(whole({ cost: 0.0000015 }));
});
