/**
 * Properties of all translations: however a provider's bytes are cut, damaged or invented, the client's bytes are
 * equal, bounded and well formed.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { awsFrame } from "../../../test/helpers/providers/bedrock-server.js";
import { replayed } from "../../../test/helpers/replayed-response.js";
import { type Provider, type ProviderEngine, providerRequest } from "./provider.js";
import type { Translation } from "./translation.js";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";

function provider(engine: ProviderEngine, bedrockApi: Provider["bedrockApi"] = "converse"): Provider {
  return {
    engine,
    basePath: "",
    maxTokensName: "max_tokens",
    apiKey: "sk-a-secret-key",
    aws: undefined,
    bedrockApi,
    apiVersion: undefined,
    thinking: "effort",
    responses: "translate",
    dropsParams: false,
    defaultMaxTokens: 100,
  };
}

interface Course {
  readonly name: string;
  readonly provider: Provider;
  readonly path: string;
}

const PROVIDERS: Readonly<Record<string, Provider>> = {
  openai: provider("openai"),
  anthropic: provider("anthropic"),
  google: provider("google"),
  bedrock: provider("bedrock"),
  invoke: provider("bedrock", "invoke"),
};
const COURSES = [CHAT, MESSAGES, RESPONSES].flatMap((path) =>
  Object.entries(PROVIDERS).map(([name, each]): Course => ({ name: `${name} for ${path}`, provider: each, path })),
);

function translationOf({ provider: asked, path }: Course, isStream: boolean): Translation {
  const asks = { max_tokens: 9, messages: [{ role: "user", content: "x" }] };
  const body = {
    model: "m",
    ...(path === RESPONSES ? { input: "x" } : asks),
    stream: isStream,
    ...(path === MESSAGES ? {} : { stream_options: { include_usage: true } }),
  };
  const request = { path, body, bytes: Buffer.alloc(0), headers: {} };
  return providerRequest(asked, "http://h", "anthropic.m", request, new Date(0)).translation;
}

/** The client's bytes without ids and times, which differ in each answer. */
function run(
  course: Course,
  pieces: readonly Buffer[],
  isStream = true,
): { readonly text: string; readonly failure: string | undefined } {
  const translation = translationOf(course, isStream);
  translation.begin(200, { "content-type": typeOf(course, isStream) });
  const out = pieces.map((piece) => translation.push(piece));
  out.push(translation.end());
  const text = Buffer.concat(out)
    .toString("utf8")
    .replace(/"created":\d+/g, '"created":0')
    .replace(/"(created|completed)_at":\d+/g, '"$1_at":0')
    .replace(/"(chatcmpl-|msg_|call_|resp_|rs_|fc_)[0-9a-f]{32}"/g, '"$1"');
  return { text, failure: translation.failure?.code };
}

function typeOf({ provider: { engine } }: Course, isStream: boolean): string {
  if (!isStream) return "application/json";
  return engine === "bedrock" ? "application/vnd.amazon.eventstream" : "text/event-stream";
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const sorted = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return sorted.slice(1).map((end, i) => bytes.subarray(sorted[i], end));
}

const text = fc.string({ unit: "grapheme", maxLength: 12 });
const part = fc.oneof(
  fc.record({ kind: fc.constant("text" as const), text }),
  fc.record({ kind: fc.constant("thought" as const), text }),
  fc.record({
    kind: fc.constant("call" as const),
    name: fc.stringMatching(/^[a-z]{1,8}$/),
    args: fc.dictionary(text, fc.oneof(text, fc.integer(), fc.boolean())),
  }),
);
const said = fc.array(part, { maxLength: 6 });
type Said = typeof said extends fc.Arbitrary<infer T> ? T : never;

/** The events of a provider that sends these parts, in pieces of one or a few characters. */
function eventsOf({ engine, bedrockApi }: Provider, parts: Said): { readonly name: string; readonly data: object }[] {
  const halves = (whole: string) => [whole.slice(0, whole.length / 2), whole.slice(whole.length / 2)];
  const hasCall = parts.some(({ kind }) => kind === "call");
  const unnamed = (data: object) => ({ name: "", data });
  if (engine === "google") {
    const events = parts.map((each) =>
      each.kind === "call"
        ? { functionCall: { name: each.name, args: each.args }, thoughtSignature: "c2ln" }
        : { text: each.text, ...(each.kind === "thought" ? { thought: true } : {}) },
    );
    const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 7 };
    return [
      ...events.map((each) =>
        unnamed({ candidates: [{ content: { parts: [each] } }], responseId: "r", modelVersion: "g" }),
      ),
      unnamed({ candidates: [{ finishReason: "STOP" }], usageMetadata }),
    ];
  }
  if (engine === "openai") {
    const delta = (fields: object, finish_reason: string | null = null) =>
      unnamed({ id: "i", model: "o", choices: [{ index: 0, delta: fields, finish_reason }] });
    let index = -1;
    return [
      ...parts.flatMap((each) => {
        if (each.kind === "text") return halves(each.text).map((content) => delta({ content }));
        if (each.kind === "thought") return halves(each.text).map((reasoning_content) => delta({ reasoning_content }));
        const at = ++index;
        const begin = delta({
          tool_calls: [{ index: at, id: `call_${at}`, type: "function", function: { name: each.name, arguments: "" } }],
        });
        return [
          begin,
          ...halves(JSON.stringify(each.args)).map((json) =>
            delta({ tool_calls: [{ index: at, function: { arguments: json } }] }),
          ),
        ];
      }),
      delta({}, hasCall ? "tool_calls" : "stop"),
      unnamed({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 7 } }),
    ];
  }
  if (engine === "anthropic" || bedrockApi === "invoke") {
    const named = (type: string, fields: object) => {
      const event = { type, ...fields };
      if (engine === "anthropic") return { name: type, data: event };
      return { name: "chunk", data: { bytes: Buffer.from(JSON.stringify(event)).toString("base64") } };
    };
    return [
      named("message_start", { message: { id: "i", model: "c", usage: { input_tokens: 5, output_tokens: 1 } } }),
      ...parts.flatMap((each, at) => {
        const [block, deltas] =
          each.kind === "text"
            ? [{ type: "text", text: "" }, halves(each.text).map((piece) => ({ type: "text_delta", text: piece }))]
            : each.kind === "thought"
              ? [
                  { type: "thinking", thinking: "", signature: "" },
                  [
                    ...halves(each.text).map((piece) => ({ type: "thinking_delta", thinking: piece })),
                    { type: "signature_delta", signature: "s" },
                  ],
                ]
              : [
                  { type: "tool_use", id: `toolu_${at}`, name: each.name, input: {} },
                  halves(JSON.stringify(each.args)).map((piece) => ({ type: "input_json_delta", partial_json: piece })),
                ];
        return [
          named("content_block_start", { index: at, content_block: block }),
          ...deltas.map((delta) => named("content_block_delta", { index: at, delta })),
          named("content_block_stop", { index: at }),
        ];
      }),
      named("message_delta", {
        delta: { stop_reason: hasCall ? "tool_use" : "end_turn" },
        usage: { output_tokens: 7 },
      }),
      named("message_stop", {}),
    ];
  }
  return [
    { name: "messageStart", data: { role: "assistant" } },
    ...parts.flatMap((each, contentBlockIndex) => {
      const deltas =
        each.kind === "text"
          ? halves(each.text).map((piece) => ({ text: piece }))
          : each.kind === "thought"
            ? [
                ...halves(each.text).map((piece) => ({ reasoningContent: { text: piece } })),
                { reasoningContent: { signature: "s" } },
              ]
            : halves(JSON.stringify(each.args)).map((piece) => ({ toolUse: { input: piece } }));
      const start =
        each.kind === "call"
          ? [
              {
                name: "contentBlockStart",
                data: {
                  contentBlockIndex,
                  start: { toolUse: { toolUseId: `t${contentBlockIndex}`, name: each.name } },
                },
              },
            ]
          : [];
      return [
        ...start,
        ...deltas.map((delta) => ({ name: "contentBlockDelta", data: { contentBlockIndex, delta } })),
        { name: "contentBlockStop", data: { contentBlockIndex } },
      ];
    }),
    { name: "messageStop", data: { stopReason: hasCall ? "tool_use" : "end_turn" } },
    { name: "metadata", data: { usage: { inputTokens: 5, outputTokens: 7 } } },
  ];
}

function bytesOf(
  asked: Provider,
  events: readonly { readonly name: string; readonly data: object | string }[],
): Buffer {
  if (asked.engine === "bedrock") {
    return Buffer.concat(
      events.map(({ name, data }) =>
        awsFrame(
          { ":event-type": name, ":message-type": "event" },
          typeof data === "string" ? Buffer.from(data) : data,
        ),
      ),
    );
  }
  const written = events.map(
    ({ name, data }) =>
      `${name === "" ? "" : `event: ${name}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`,
  );
  return Buffer.from(written.join("") + (asked.engine === "openai" ? "data: [DONE]\n\n" : ""));
}

/** A client's view of its stream: text, thoughts and calls. */
function heard(path: string, stream: string): { texts: string; thoughts: string; calls: unknown[][] } {
  const result = { texts: "", thoughts: "", calls: [] as unknown[][] };
  if (path === RESPONSES) {
    const texts = (parts: unknown) => ((parts ?? []) as { text: string }[]).map(({ text }) => text).join("");
    for (const item of replayed(stream).output) {
      result.texts += texts(item.content);
      result.thoughts += texts(item.summary);
      if (item.type === "function_call") result.calls.push([item.name, JSON.parse(String(item.arguments) || "{}")]);
    }
    return result;
  }
  const pieces: [string, string][] = [];
  for (const each of stream.split("\n\n")) {
    const data = /^data: ([^\n]*)/m.exec(each)?.[1];
    if (data === undefined || data === "[DONE]") continue;
    const event = JSON.parse(data);
    if (path === CHAT) {
      const delta = event.choices[0]?.delta ?? {};
      result.texts += delta.content ?? "";
      result.thoughts += delta.reasoning_content ?? "";
      for (const call of delta.tool_calls ?? []) {
        if (call.id !== undefined) pieces[call.index] = [call.function.name, ""];
        pieces[call.index]![1] += call.function.arguments;
      }
      continue;
    }
    if (event.content_block?.type === "tool_use") pieces.push([event.content_block.name, ""]);
    result.texts += event.delta?.text ?? "";
    result.thoughts += event.delta?.thinking ?? "";
    if (event.delta?.partial_json !== undefined) pieces.at(-1)![1] += event.delta.partial_json;
  }
  result.calls = pieces.map(([name, json]) => [name, json === "" ? {} : JSON.parse(json)]);
  return result;
}

/** A whole stream has its dialect's order of events; a failing stream has a beginning of it. */
function expectInOrder(path: string, stream: string, isWhole: boolean): void {
  if (path === RESPONSES) {
    expect(replayed(stream).response === undefined).toBe(!isWhole);
    return;
  }
  const events = stream
    .split("\n\n")
    .filter((each) => each !== "")
    .map((each) => /^data: ([^\n]*)/m.exec(each)![1]!);
  if (path === CHAT) {
    expect(events.filter((each) => each === "[DONE]")).toHaveLength(isWhole ? 1 : 0);
    if (isWhole) expect(events.at(-1)).toBe("[DONE]");
    const reasons = events.filter((each) => each !== "[DONE]" && JSON.parse(each).choices[0]?.finish_reason != null);
    expect(reasons.length <= 1 && (!isWhole || reasons.length === 1)).toBe(true);
    return;
  }
  const types = events.map((each) => JSON.parse(each) as { type: string; index?: number });
  let [open, next]: [number | undefined, number] = [undefined, 0];
  for (const { type, index } of types) {
    if (type === "content_block_start") {
      expect([open, index]).toEqual([undefined, next]);
      open = next++;
    } else if (type === "content_block_delta") expect(index).toBe(open);
    else if (type === "content_block_stop") {
      expect(index).toBe(open);
      open = undefined;
    }
  }
  if (types.length > 0) expect(types[0]!.type).toBe("message_start");
  if (!isWhole) return;
  expect(open).toBeUndefined();
  expect(types.slice(-2).map(({ type }) => type)).toEqual(["message_delta", "message_stop"]);
}

const places = fc.array(fc.nat(), { maxLength: 12 });

describe.each(COURSES)("$name", (course) => {
  const { provider: asked, path } = course;

  test("what is said arrives, however the bytes are cut", () => {
    fc.assert(
      fc.property(said, places, (parts, at) => {
        const bytes = bytesOf(asked, eventsOf(asked, parts));
        const whole = run(course, [bytes]);
        expect(whole.failure).toBeUndefined();
        expectInOrder(path, whole.text, true);
        expect(run(course, cut(bytes, at))).toEqual(whole);
        const join = (kind: "text" | "thought") => parts.map((each) => (each.kind === kind ? each.text : "")).join("");
        const calls = parts.flatMap((each) =>
          each.kind === "call" ? [[each.name, JSON.parse(JSON.stringify(each.args))]] : [],
        );
        if (asked.engine !== "openai" || path !== CHAT)
          expect(heard(path, whole.text)).toEqual({ texts: join("text"), thoughts: join("thought"), calls });
      }),
      { numRuns: 60 },
    );
  });

  test("a damaged stream gives the same however it is cut, and ends in a failure or whole", () => {
    const damage = fc.oneof(
      fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }) }),
      fc.record({ at: fc.nat(), length: fc.integer({ min: 1, max: 40 }) }),
    );
    fc.assert(
      fc.property(said, fc.array(damage, { minLength: 1, maxLength: 3 }), places, (parts, damages, at) => {
        let bytes = Buffer.from(bytesOf(asked, eventsOf(asked, parts)));
        for (const each of damages) {
          const place = each.at % bytes.length;
          if ("byte" in each) bytes[place] = each.byte;
          else bytes = Buffer.concat([bytes.subarray(0, place), bytes.subarray(place + each.length)]);
          if (bytes.length === 0) return;
        }
        const whole = run(course, [bytes]);
        expect(run(course, cut(bytes, at))).toEqual(whole);
        expect([undefined, "upstream_failed"]).toContain(whole.failure);
        expect(whole.text.length).toBeLessThan(64 * bytes.length + 4096);
      }),
      { numRuns: 80 },
    );
  });

  test("events and whole answers of any JSON never throw", () => {
    const keys = [
      "choices",
      "delta",
      "message",
      "content",
      "type",
      "index",
      "tool_calls",
      "function",
      "arguments",
      "candidates",
      "parts",
      "functionCall",
      "usage",
      "output",
      "toolUse",
      "contentBlockIndex",
      "content_block",
      "error",
      "stop_reason",
      "bytes",
    ];
    const types = [
      "message_start",
      "content_block_start",
      "content_block_delta",
      "message_delta",
      "tool_use",
      "input_json_delta",
      "error",
    ];
    const { json } = fc.letrec((tie) => ({
      json: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom<unknown>(...types, 0, 1, -1, null, true, 1e308, "{"),
        fc.string(),
        fc.array(tie("json"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom(...keys), tie("json"), { maxKeys: 5 }),
      ),
    }));
    const event = fc.record({
      name: fc.constantFrom(
        "",
        "chunk",
        "contentBlockStart",
        "contentBlockDelta",
        "messageStop",
        "metadata",
        "message_start",
      ),
      data: json,
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 5 }), (events) => {
        const bytes = bytesOf(
          asked,
          events.map(({ name, data }) => ({ name, data: JSON.stringify(data) })),
        );
        expect([undefined, "upstream_failed"]).toContain(run(course, [bytes]).failure);
        const [first] = events;
        if (first === undefined) return;
        const whole = run(course, [Buffer.from(JSON.stringify(first.data))], false);
        expect([undefined, "upstream_failed"]).toContain(whole.failure);
      }),
      { numRuns: 150 },
    );
  });
});
