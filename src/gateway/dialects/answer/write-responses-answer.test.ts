/** Responses from the parts of any answer: the stream, replayed event by event, equals the whole answer. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { eventsOf, replayed } from "../../../../test/helpers/replayed-response.js";
import type { AnswerPart } from "../conversation/answer-parts.js";
import { ResponsesAnswerWriter } from "./write-responses-answer.js";

const counts = { fresh: 5, cacheRead: 3, cacheWrite: 2, output: 9, reasoning: 4 };
const writer = (body: object = {}) => new ResponsesAnswerWriter({ body: { ...body }, model: "m", created: 1000 });

function streamed(parts: readonly AnswerPart[], body: object = {}): string {
  const stream = writer(body);
  return stream.stream(parts) + stream.streamEnd();
}

/** The value without ids and times, which differ in each answer. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value)
      .replace(/"(resp|msg|rs|fc)_[0-9a-f]{32}"/g, '"$1"')
      .replace(/"completed_at":\d+/, '"completed_at":0'),
  );
}

const text = fc.string({ unit: "grapheme", maxLength: 9 });
const piece = fc.oneof(
  fc.record({ kind: fc.constantFrom("text" as const, "thought" as const), text }),
  fc.record({ kind: fc.constant("signature" as const), signature: text }),
  fc.record({ kind: fc.constant("hidden-thought" as const), data: text }),
  fc.record({
    kind: fc.constant("call" as const),
    signature: fc.option(text, { nil: undefined }),
    pieces: fc.array(text),
  }),
);
const answer = fc.record({
  pieces: fc.array(piece, { maxLength: 10 }),
  reason: fc.constantFrom("end" as const, "length" as const, "calls" as const, "filter" as const),
});
type Said = typeof answer extends fc.Arbitrary<infer T> ? T : never;

function partsOf({ pieces, reason }: Said): AnswerPart[] {
  const parts = pieces.flatMap((each, index): AnswerPart[] => {
    if (each.kind !== "call") return [each];
    const { signature, pieces: jsons } = each;
    const called: AnswerPart = { kind: "call", index, id: `toolu_${index}`, name: "look", signature };
    return [called, ...jsons.map((json): AnswerPart => ({ kind: "arguments", index, json }))];
  });
  return [{ kind: "begin", id: "i", model: "claude" }, ...parts, { kind: "stop", reason }, { kind: "usage", counts }];
}

test("the events, replayed in order, give the response that a client gets whole", () => {
  fc.assert(
    fc.property(answer, (said) => {
      const parts = partsOf(said);
      const { response } = replayed(streamed(parts));
      expect(plain(response)).toEqual(plain(writer().whole(parts)));
      const joined = (kind: "text" | "thought") =>
        said.pieces.map((each) => (each.kind === kind ? each.text : "")).join("");
      const inOrder = (response!.output as { type: string; content?: object[]; summary?: object[] }[]).flatMap(
        ({ content, summary }) => (content ?? summary ?? []) as { type: string; text: string }[],
      );
      const shown = (type: string) => inOrder.map((part) => (part.type === type ? part.text : "")).join("");
      expect(shown("output_text")).toBe(joined("text"));
      expect(shown("summary_text")).toBe(joined("thought"));
    }),
    { numRuns: 300 },
  );
});

test("thoughts, a message and a call, event by event", () => {
  const stream = streamed([
    { kind: "begin", id: undefined, model: undefined },
    { kind: "thought", text: "Hm." },
    { kind: "signature", signature: "sig" },
    { kind: "text", text: "I " },
    { kind: "text", text: "look." },
    { kind: "call", index: 0, id: "toolu_1", name: "look" },
    { kind: "arguments", index: 0, json: "{}" },
    { kind: "stop", reason: "calls" },
    { kind: "usage", counts },
  ]);
  expect(eventsOf(stream).map(({ type }) => type.replace("response.", ""))).toEqual([
    "created",
    "in_progress",
    "output_item.added",
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
    "output_item.done",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
    "completed",
  ]);
  expect(replayed(stream).response).toMatchObject({
    status: "completed",
    model: "m",
    output: [
      {
        type: "reasoning",
        summary: [{ type: "summary_text", text: "Hm." }],
        encrypted_content: "millrace-thought:sig",
      },
      { type: "message", content: [{ type: "output_text", text: "I look.", annotations: [], logprobs: [] }] },
      { type: "function_call", call_id: "toolu_1", name: "look", arguments: "{}", status: "completed" },
    ],
    usage: {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
      output_tokens: 9,
      output_tokens_details: { reasoning_tokens: 4 },
      total_tokens: 19,
    },
  });
});

test("the request's fields are repeated, with the usage behind them all", () => {
  const body = {
    instructions: "Be brief.",
    max_output_tokens: 7,
    temperature: 0.5,
    tools: [{ type: "function", name: "look" }],
    tool_choice: "required",
    parallel_tool_calls: false,
    reasoning: { effort: "low" },
    text: { format: { type: "json_object" } },
    metadata: { a: "b" },
  };
  const whole = writer(body).whole([{ kind: "stop", reason: "length" }]);
  expect(whole).toMatchObject({
    ...body,
    status: "incomplete",
    incomplete_details: { reason: "max_output_tokens" },
    output: [{ type: "message", status: "incomplete", content: [{ text: "" }] }],
  });
  expect(Object.keys(whole).at(-1)).toBe("usage");
});

test.each([
  ["filter", "content_filter"],
  ["refusal", "content_filter"],
] as const)("an answer that ends by %s is incomplete", (reason, expected) => {
  const whole = writer().whole([
    { kind: "text", text: "x" },
    { kind: "stop", reason },
  ]);
  expect(whole).toMatchObject({ status: "incomplete", incomplete_details: { reason: expected } });
});

test("an answer without end is not kept for ever", () => {
  const long: AnswerPart = { kind: "text", text: "x".repeat(2 ** 22) };
  expect(() => writer().stream([long, long, long, long, long])).toThrow("expected at most");
  const turns = Array.from(
    { length: 40_000 },
    (_, i): AnswerPart => ({ kind: i % 2 === 0 ? "text" : "thought", text: "x" }),
  );
  expect(() => writer().whole(turns)).toThrow("expected at most");
});

const call = (index: number): AnswerPart => ({ kind: "call", index, id: `c${index}`, name: "f" });
const json = (index: number, piece: string): AnswerPart => ({ kind: "arguments", index, json: piece });

test("what comes between the arguments of a call follows them", () => {
  const parts = [
    call(0),
    json(0, '{"a'),
    call(1),
    { kind: "text", text: "Hm." } as const,
    json(1, "{}"),
    json(0, '":1}'),
  ];
  const expected = { output: [{ arguments: '{"a":1}' }, { arguments: "{}" }, { content: [{ text: "Hm." }] }] };
  expect(writer().whole(parts)).toMatchObject(expected);
  expect(replayed(streamed([{ kind: "begin", id: "i", model: "m" }, ...parts])).response).toMatchObject(expected);
  // A whole call does not wait for the end of the answer.
  const stream = writer();
  stream.stream([call(0), json(0, "{}")]);
  expect(stream.stream([call(1)])).toContain("response.output_item.done");
  expect(() => stream.stream([json(0, "{}")])).toThrow("expected all arguments of a call at once");
});

test("a call without arguments has an empty object, unless the answer ends before them", () => {
  const begin: AnswerPart = { kind: "begin", id: "i", model: "m" };
  const ends = (reason: "calls" | "length"): AnswerPart[] => [begin, call(0), call(1), { kind: "stop", reason }];
  const stream = streamed(ends("calls"));
  expect(replayed(stream).response).toMatchObject({ output: [{ arguments: "{}" }, { arguments: "{}" }] });
  expect(eventsOf(stream).filter(({ type }) => type.endsWith("arguments.delta"))).toHaveLength(2);
  expect(replayed(streamed(ends("length"))).response).toMatchObject({
    output: [{ arguments: "{}" }, { arguments: "" }],
  });
  expect(writer().whole(ends("length"))).toMatchObject({ output: [{ arguments: "{}" }, { arguments: "" }] });
});

test.each([0, 2])("an answer begins once, where its provider says so %i times", (count) => {
  const begin: AnswerPart = { kind: "begin", id: "x", model: "m" };
  const parts = [...Array.from({ length: count }, () => begin), { kind: "text", text: "Hi" } as const];
  const types = eventsOf(streamed(parts)).map(({ type }) => type);
  expect(types.filter((type) => type === "response.created")).toHaveLength(1);
  expect(types[0]).toBe("response.created");
});
