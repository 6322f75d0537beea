import fc from "fast-check";
import { expect, test } from "vitest";
import { BufferSink } from "./answer.js";
import { askUsage } from "./ask-usage.js";
import type { GatewayRequest } from "./request.js";

const requestOf = (json: string, path = "/v1/chat/completions"): GatewayRequest => {
  const body = JSON.parse(json);
  return { path, body, bytes: Buffer.from(json), isStream: body.stream === true } as GatewayRequest;
};

test.each([
  [
    '{"stream":true,"seed":12345678901234567890}',
    '{"stream_options":{"include_usage":true},"stream":true,"seed":12345678901234567890}',
  ],
  [' { "stream" : true }', ' {"stream_options":{"include_usage":true}, "stream" : true }'],
  ['{"stream":true,"stream_options":null}', '{"stream":true,"stream_options":{"include_usage":true}}'],
  [
    '{"stream":true,"stream_options":{"include_usage":false,"a":1}}',
    '{"stream":true,"stream_options":{"include_usage":true,"a":1}}',
  ],
])("%s is asked", (json, expected) => {
  const [{ bytes, body }] = askUsage(requestOf(json), new BufferSink());
  expect(bytes.toString()).toBe(expected);
  expect(body.stream_options).toMatchObject({ include_usage: true });
});

test("a stream whose client asked with OpenRouter's word keeps its counts", () => {
  const request = requestOf('{"stream":true,"usage":{"include":true}}');
  const sink = new BufferSink();
  const [{ body }, stripped] = askUsage(request, sink);
  expect(body.stream_options).toEqual({ include_usage: true });
  stripped.begin({ status: 200, headers: {}, isEventStream: true });
  stripped.end(Buffer.from(USAGE));
  expect(sink.answer()?.body.toString()).toBe(USAGE);
});

test("counts with every event are asked for in the bytes, too", () => {
  const [first] = askUsage(requestOf('{"stream":true,"seed":12345678901234567890}'), new BufferSink(), true);
  const both = '{"include_usage":true,"continuous_usage_stats":true}';
  expect(first.bytes.toString()).toBe(`{"stream_options":${both},"stream":true,"seed":12345678901234567890}`);
  const own = '{"seed":12345678901234567890, "stream_options" : { "include_usage": true }, "stream":true}';
  const [second] = askUsage(requestOf(own), new BufferSink(), true);
  expect(second.bytes.toString()).toBe(own.replace('{ "include_usage": true }', both));
});

test.each([
  ["/v1/chat/completions", '{"stream":false}'],
  ["/v1/chat/completions", '{"stream":true,"stream_options":{"include_usage":true}}'],
  ["/v1/chat/completions", '{"stream":true,"stream_options":"x"}'],
  ["/v1/messages", '{"stream":true}'],
  ["/v1/responses", '{"stream":true}'],
])("%s %s is left alone", (path, json) => {
  const request = requestOf(json, path);
  const sink = new BufferSink();
  expect(askUsage(request, sink)).toEqual([request, sink]);
});

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const USAGE = event({ id: "c", choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } });

test("what the client did not ask for is dropped, however events come together, and no text can look like it", () => {
  const plain = fc.oneof(
    fc.constant(event({ choices: [{ delta: { content: USAGE } }] })),
    fc.constant(event({ choices: [] })),
    fc.constant(event({ choices: [{ delta: {} }], usage: { prompt_tokens: 1 } })),
    fc.constant('data: {"choices":[],"usage":\n\n'),
    fc.constant("data: [DONE]\n\n"),
    fc.constant(": ping\n\n"),
  );
  const other = fc.oneof(
    plain.map((text) => [text, text] as const),
    fc
      .tuple(fc.string(), fc.constantFrom({ usage: null }, { usage: null, obfuscation: "x" }))
      .map(([content, more]) => {
        const chunk = { choices: [{ delta: { content } }] };
        return [event({ ...chunk, ...more }), event({ ...chunk, ...more, usage: undefined })] as const;
      }),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(other, fc.boolean(), fc.boolean())), (events) => {
      const inner = new BufferSink();
      const [, sink] = askUsage(requestOf('{"stream":true}'), inner);
      sink.begin({ status: 200, headers: {}, isEventStream: true });
      let held = "";
      for (const [[sent], hasUsage, isTogether] of events) {
        held += sent + (hasUsage ? USAGE : "");
        if (isTogether) continue;
        sink.write(Buffer.from(held));
        held = "";
      }
      sink.end(held === "" ? undefined : Buffer.from(held));
      expect(inner.answer()!.body.toString()).toBe(events.map(([[, shown]]) => shown).join(""));
    }),
  );
});

test("an answer that is no stream passes as it is", () => {
  const inner = new BufferSink();
  const [, sink] = askUsage(requestOf('{"stream":true}'), inner);
  sink.begin({ status: 400, headers: {}, isEventStream: false });
  sink.write(Buffer.from(USAGE));
  sink.end();
  expect(inner.answer()!.body.toString()).toBe(USAGE);
});

test("events whose lines end with a carriage return, too, are told apart", () => {
  const crlf = (text: string): Buffer => Buffer.from(text.replaceAll("\n", "\r\n"));
  const [text, done] = [event({ choices: [{ delta: { content: "a" } }] }), "data: [DONE]\n\n"];
  const buffer = new BufferSink();
  const [, sink] = askUsage(requestOf('{"stream":true}'), buffer);
  sink.begin({ status: 200, headers: {}, isEventStream: true });
  sink.write(crlf(text + USAGE + done));
  sink.end();
  expect(buffer.answer()!.body.toString()).toBe(crlf(text + done).toString());
});
