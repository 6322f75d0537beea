import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BufferSink } from "../answer.js";
import { routeOf } from "../api/routes.js";
import { askUsage } from "../ask-usage.js";
import { Cancellation } from "../cancellation.js";
import { DEAF_REQUEST } from "../observer.js";
import type { GatewayRequest } from "../request.js";
import { RequestRecord } from "../usage/record.js";
import { StreamUsage } from "./stream-usage.js";

const sse = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
const CHAT = "/v1/chat/completions";

function requestOf(body: Record<string, unknown>): GatewayRequest {
  return {
    id: "r",
    url: CHAT,
    path: CHAT,
    route: routeOf(CHAT)!,
    headers: {},
    bytes: Buffer.from(JSON.stringify(body)),
    body,
    asked: "m",
    model: "m",
    caller: { tenant: "" },
    isStream: true,
    cancellation: new Cancellation(),
    observer: DEAF_REQUEST,
    record: new RequestRecord(),
  };
}

/** Texts that look like the patterns. */
const text = fc.oneof(
  fc.string(),
  fc.constantFrom(',"usage":{"completion_tokens":9}}', '"choices":[]', "\n\ndata: {}", "é漢"),
);
const choice = fc.record({ index: fc.nat(3), content: text, new: fc.nat(5) });

test("the texts of completions are counted, whatever they look like and wherever they stand", () => {
  const lookalike = fc.oneof(text, fc.constantFrom('"text":"', '"choices":[{"text":"a', "\\", '"delta":{'));
  const member = fc.oneof(
    fc.record({ text: lookalike }),
    fc.record({ index: fc.nat(3), text: lookalike }),
    fc.record({ index: fc.nat(3), text: lookalike, delta: fc.record({ content: lookalike }) }),
    fc.record({ text: lookalike, logprobs: fc.record({ tokens: fc.array(lookalike, { maxLength: 2 }) }) }),
  );
  fc.assert(
    fc.property(fc.array(fc.array(member, { maxLength: 2 }), { maxLength: 5 }), (events) => {
      const usage = new StreamUsage(1);
      let numBytes = 0;
      for (const choices of events) {
        for (const { text: own, delta } of choices as { text: string; delta?: { content: string } }[]) {
          for (const each of new Set([own, ...(delta === undefined ? [] : [delta.content])])) {
            numBytes += Buffer.byteLength(each);
          }
        }
        usage.push(Buffer.from(sse({ id: "c", choices })));
      }
      expect(usage.mostOutputTokens).toBe(numBytes);
    }),
  );
});

describe("usage with every event", () => {
  const stream = (
    choices: readonly { index: number; content: string; new: number }[],
    usage: "none" | "last" | "every",
  ) => {
    const outputs = new Map<number, number>();
    const events = choices.map(({ index, content, new: added }) => {
      const output = (outputs.get(index) ?? 0) + added;
      outputs.set(index, output);
      const counts = { prompt_tokens: 7, total_tokens: 7 + output, completion_tokens: output };
      const chunk = { id: "c", choices: [{ index, delta: { content }, finish_reason: null }] };
      return sse(usage === "none" ? chunk : { ...chunk, usage: usage === "every" ? counts : null });
    });
    const total = [...outputs.values()].reduce((sum, each) => sum + each, 0);
    const whole = { prompt_tokens: 7, completion_tokens: total, prompt_tokens_details: { cached_tokens: 3 } };
    const last = usage === "none" ? "" : sse({ id: "c", choices: [], usage: whole });
    return { events, last: last + sse("[DONE]"), total };
  };

  test("is summed over the choices, whatever the texts", () => {
    fc.assert(
      fc.property(fc.array(choice), (choices) => {
        const { events, last, total } = stream(choices, "every");
        const usage = new StreamUsage(1);
        usage.push(Buffer.from(events.join("")));
        expect(usage.mostOutputTokens).toBe(total);
        if (events.length > 0) {
          expect(usage.counts(99)).toEqual({ fresh: 7, cacheRead: 0, cacheWrite: 0, output: total, reasoning: 0 });
        }
        usage.push(Buffer.from(last));
        expect(usage.counts(99)).toEqual({ fresh: 4, cacheRead: 3, cacheWrite: 0, output: total, reasoning: 0 });
      }),
    );
  });

  test.each(["none", "last"] as const)("is taken out for a client that asked for %s", (wanted) => {
    fc.assert(
      fc.property(fc.array(choice), fc.nat(4), (choices, atOnce) => {
        const options = wanted === "none" ? {} : { stream_options: { include_usage: true } };
        const buffer = new BufferSink();
        const [asked, sink] = askUsage(requestOf({ model: "m", stream: true, ...options }), buffer, true);
        expect(asked.body.stream_options).toEqual({ include_usage: true, continuous_usage_stats: true });
        expect(JSON.parse(asked.bytes.toString())).toEqual(asked.body);
        const { events, last } = stream(choices, "every");
        sink.begin({ status: 200, headers: {}, isEventStream: true });
        for (let i = 0; i < events.length; i += atOnce + 1)
          sink.write(Buffer.from(events.slice(i, i + atOnce + 1).join("")));
        sink.end(Buffer.from(last));
        const plain = stream(choices, wanted);
        expect(buffer.answer()!.body.toString()).toBe(plain.events.join("") + plain.last);
      }),
    );
  });

  test("stays for a client that asked for it, and is not asked for in an odd request", () => {
    const all = { include_usage: true, continuous_usage_stats: true };
    for (const body of [{ stream_options: all }, { stream_options: 7 }, { stream_options: [] }]) {
      const request = requestOf({ model: "m", ...body });
      const sink = new BufferSink();
      const [asked, own] = askUsage(request, sink, true);
      expect([asked === request, own === sink]).toEqual([true, true]);
    }
  });
});

describe("usage that is not reported", () => {
  const delta = (fields: object) => sse({ choices: [{ index: 0, delta: fields }] });

  test("is at most the bytes of the text, and at least an event each", () => {
    const usage = new StreamUsage(1);
    usage.push(
      Buffer.from(delta({ role: "assistant", content: "" }) + delta({ content: "hello" }) + delta({ content: "漢" })),
    );
    expect(usage.mostOutputTokens).toBe(8);
    expect(usage.counts(20)).toMatchObject({ fresh: 20, output: 2, isEstimated: true });
    const paid = new StreamUsage(3);
    paid.push(Buffer.from(delta({ content: "hello, you" })));
    expect(Math.ceil(paid.mostOutputTokens)).toBe(4);
  });

  test.each([
    ["reasoning", delta({ reasoning_content: "abcd" })],
    ["a call", delta({ tool_calls: [{ index: 0, function: { name: "ab", arguments: "{}" } }] })],
    ["a completion", sse({ choices: [{ index: 0, text: "abcd" }] })],
    ["a response", `event: response.output_text.delta\n${sse({ type: "response.output_text.delta", delta: "abcd" })}`],
    ["a message", `event: content_block_delta\n${sse({ type: "content_block_delta", delta: { text: "abcd" } })}`],
    ["a message's call", sse({ type: "content_block_delta", delta: { partial_json: "abcd" } })],
    ["a message's thinking", sse({ type: "content_block_delta", delta: { thinking: "abcd" } })],
  ])("counts %s", (_, event) => {
    const usage = new StreamUsage(1);
    usage.push(Buffer.from(event));
    expect(usage.mostOutputTokens).toBe(4);
  });

  test("Anthropic's prompt is known at the beginning, and all at the end", () => {
    const usage = new StreamUsage(1);
    const begun = { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 1 };
    usage.push(Buffer.from(sse({ type: "message_start", message: { usage: begun } })));
    expect([usage.promptTokens, usage.mostOutputTokens]).toEqual([8, 0]);
    usage.push(Buffer.from(sse({ type: "content_block_delta", delta: { text: "abcd" } })));
    usage.push(Buffer.from(sse({ type: "message_delta", delta: {}, usage: { output_tokens: 2 } })));
    expect(usage.counts(0)).toMatchObject({ fresh: 5, cacheRead: 3, output: 2 });
  });

  test("hostile streams are counted without an exception", () => {
    const line = fc.oneof(fc.string(), fc.jsonValue().map(sse), fc.constant("data: {"), fc.constant("\n\n"));
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const usage = new StreamUsage(1);
        for (const each of lines) usage.push(Buffer.from(each));
        expect(usage.mostOutputTokens).toBeGreaterThanOrEqual(0);
        expect(usage.counts(3).output).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

describe("a stream without reports is counted by its texts", () => {
  const delta = (more: object) => JSON.stringify({ choices: [{ delta: more }] });
  const long = "x".repeat(1000);
  const streams: readonly (readonly [string, string])[] = [
    ["with other ends of lines", `data: ${delta({ content: "a" })}\r\n\r\n`.repeat(1000)],
    ["with carriage returns alone", `data: ${delta({ content: "a" })}\r\r`.repeat(1000)],
    ["with data in several lines", `data: {"choices":\ndata: [{"delta":{"content":"${long}"}}]}\n\n`],
    ["of calls in the old form", sse(delta({ function_call: { name: "f", arguments: long } }))],
    ["of parts", sse(delta({ content: [{ type: "text", text: long }] }))],
    ["of thoughts in two members", sse(delta({ reasoning: "", reasoning_content: long }))],
    ["of messages", sse({ choices: [{ message: { content: long } }] })],
    ["of an event that is cut", sse(delta({ content: long })).slice(0, -4)],
    ["of the rest of a cut event", `${long}"}}]}\n\n`],
    [
      "that reports early",
      sse({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 0 } }) + sse(delta({ long })),
    ],
  ];

  test.each(streams)("%s", (_, events) => {
    const usage = new StreamUsage(1);
    usage.push(Buffer.from(events));
    expect(usage.mostOutputTokens).toBeGreaterThanOrEqual(1000);
    expect(usage.counts(1).output).toBeGreaterThanOrEqual(250);
  });

  test("and a report at its end replaces them", () => {
    const usage = new StreamUsage(1);
    usage.push(Buffer.from(sse(delta({ content: long }))));
    usage.push(
      Buffer.from(`${sse({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 9 } })}data: [DONE]\n\n`),
    );
    expect(usage.mostOutputTokens).toBe(9);
    expect(usage.counts(1)).toEqual({ fresh: 7, cacheRead: 0, cacheWrite: 0, output: 9, reasoning: 0 });
  });
});

test.each([
  ["of Ollama's form", { message: { content: "x".repeat(300) } }, 300],
  ["of an unknown form", { generated: "x".repeat(300) }, 300],
  ["without a text", { choices: [{ message: { content: "" } }] }, 0],
])("a whole answer %s counts its text at most", (_, answer, least) => {
  const usage = new StreamUsage(1);
  usage.pushWhole(Buffer.from(JSON.stringify(answer)));
  expect(usage.mostOutputTokens).toBeGreaterThanOrEqual(least);
  expect(usage.mostOutputTokens).toBeLessThanOrEqual(least + 20);
});
