import { describe, expect, test } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { type AnswerHead, BufferSink } from "../answer.js";
import { CostSink, reportFormOf } from "./cost-sink.js";

const USAGE = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const PRICED = {
  hasHeader: false,
  form: reportFormOf("/v1/chat/completions"),
  isPriced: () => true,
  cost: () => 1_500n,
};
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
  ["of another path", JSON_HEAD, { ...PRICED, form: undefined }],
  ["that is compressed", { ...JSON_HEAD, headers: { "content-encoding": "gzip" } }, PRICED],
  ["that is an error", { ...JSON_HEAD, status: 500 }, PRICED],
])("an answer %s stays as it is, whole or as a stream", (_, head, terms) => {
  const body = JSON.stringify({ choices: [], usage: USAGE });
  expect(sent([body], head, terms)).toBe(body);
  const events = [text("a"), last(USAGE), DONE];
  expect(sent(events, { ...head, isEventStream: true }, terms)).toBe(events.join(""));
});

const named = (data: { readonly type: string }): string => `event: ${data.type}\n${event(data)}`;
/** Client's text that an answer repeats: no part of it is the answer's report. */
const REPEATED = { metadata: { usage: { input_tokens: 1 } }, tools: [{ parameters: { usage: { cost: 1 } } }] };
const COUNTS = { input_tokens: 3, output_tokens: 2 };
const PAID = { ...COUNTS, cost: 0.0000015 };

describe.each([
  [
    "/v1/messages",
    (usage: object) => ({ content: [{ type: "tool_use", input: REPEATED }], usage, ...REPEATED }),
    (usage: object) => [
      named({ type: "message_start", message: { usage: COUNTS } } as { type: string }),
      named({ type: "content_block_start", content_block: { input: REPEATED } } as { type: string }),
      named({ type: "message_delta", delta: { stop_reason: "end_turn", ...REPEATED }, usage } as { type: string }),
      named({ type: "message_stop" }),
    ],
  ],
  [
    "/v1/responses",
    (usage: object) => ({ ...REPEATED, output: [], usage, text: REPEATED }),
    (usage: object) => [
      named({ type: "response.created", response: { usage: null, ...REPEATED } } as { type: string }),
      named({ type: "response.output_text.delta", delta: 'ü "response.completed"' } as { type: string }),
      named({ type: "response.completed", response: { usage, ...REPEATED }, usage: COUNTS } as { type: string }),
      DONE,
    ],
  ],
] as const)("answers of %s", (path, whole, stream) => {
  const terms = { ...PRICED, form: reportFormOf(path) };

  test("have their cost in their own report, and in nothing that they repeat", () => {
    expect(sent([JSON.stringify(whole(COUNTS))], JSON_HEAD, terms)).toBe(JSON.stringify(whole(PAID)));
    for (const writes of [stream(COUNTS), [stream(COUNTS).join("")]])
      expect(sent(writes, STREAM_HEAD, terms)).toBe(stream(PAID).join(""));
  });

  test("without a report stay as they are", () => {
    const { usage: _, ...silent } = whole(COUNTS);
    for (const text of [JSON.stringify(silent), `${JSON.stringify(whole(COUNTS))}}`, "[]", "no JSON"])
      expect(sent([text], JSON_HEAD, terms)).toBe(text);
    const events = stream(COUNTS).filter((each) => !each.includes("message_delta") && !each.includes("completed"));
    expect(sent(events, STREAM_HEAD, terms)).toBe(events.join(""));
  });

  test("whose report was not the last have the cost in the last", () => {
    const events = stream(COUNTS);
    expect(sent([...events.slice(0, 3), ...events], STREAM_HEAD, terms)).toBe(
      [...events.slice(0, 3), ...stream(PAID)].join(""),
    );
  });
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
  // Held bytes alone stop no writer.
  expect(answers).toEqual([false, false, false, true, true]);
});

test("events whose lines end with a carriage return, too, are told apart", () => {
  const crlf = (each: string) => each.replaceAll("\n", "\r\n");
  const whole = (cost: object) => crlf([text("a"), text("b"), last({ ...USAGE, ...cost }), DONE].join(""));
  expect(sent([whole({})])).toBe(whole({ cost: 0.0000015 }));
});
