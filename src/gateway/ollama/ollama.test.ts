import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { BufferSink } from "../answer.js";
import { answerIdle, ollamaEndpointOf, ollamaSink, untagged } from "./endpoints.js";
import { ofChat, ofCompletion, ofEmbed, ofGenerate, ofLegacyEmbed } from "./request.js";

const user = { role: "user", content: "Paris?" };

describe("requests", () => {
  it("are those of OpenAI's API", () => {
    const request = ofChat({
      model: "m",
      messages: [user],
      options: { temperature: 0, num_predict: 5, repeat_penalty: 1.1, num_ctx: 4096, mirostat: 2, colour: 1 },
      format: "json",
      think: false,
      keep_alive: "5m",
    });
    expect(request).toEqual({
      model: "m",
      messages: [user],
      stream: true,
      stream_options: { include_usage: true },
      response_format: { type: "json_object" },
      temperature: 0,
      max_tokens: 5,
      repetition_penalty: 1.1,
      chat_template_kwargs: { enable_thinking: false },
    });
    const samplers = { typical_p: 0.9, repeat_last_n: 64, xtc_probability: 0.5, dry_multiplier: 0.8 };
    expect(ofChat({ messages: [user], options: samplers })).toMatchObject(samplers);
    expect(ofGenerate({ prompt: "Hi", system: "Be brief.", stream: false, options: { num_predict: -1 } })).toEqual({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
      ],
      stream: false,
    });
    expect(ofGenerate({ prompt: "Hi", stream: false, template: "", context: [] }).messages).toEqual([
      { role: "user", content: "Hi" },
    ]);
    expect(ofGenerate({ prompt: "Hi", options: { temperature: 2.5 } })).toMatchObject({ temperature: 2 });
    const cut = { truncate_prompt_tokens: -1 };
    expect(ofEmbed({ model: "m", input: ["a"], truncate: true })).toEqual({ model: "m", input: ["a"], ...cut });
    expect(ofEmbed({ model: "m", input: ["a"] })).toEqual({ model: "m", input: ["a"], ...cut });
    expect(ofEmbed({ model: "m", input: ["a"], truncate: false })).toEqual({ model: "m", input: ["a"] });
    expect(ofLegacyEmbed({ model: "m", prompt: "a" })).toEqual({ model: "m", input: "a", ...cut });
  });

  it("of raw prompts are completions", () => {
    const { pathOf, request } = ollamaEndpointOf("/api/generate")!;
    const raw = { prompt: "a", raw: true, stream: false, options: { num_predict: 2 } };
    expect(pathOf(raw)).toBe("/v1/completions");
    expect(request(raw)).toEqual({ prompt: "a", stream: false, max_tokens: 2 });
    expect(request({ prompt: "a", suffix: "z", stream: false })).toEqual({ prompt: "a", suffix: "z", stream: false });
    expect(pathOf({ prompt: "a", raw: false, suffix: "" })).toBe("/v1/chat/completions");
  });

  it("give calls ids, which their results have", () => {
    const call = (name: string) => ({ function: { name, arguments: { a: 1 } } });
    const { messages } = ofChat({
      messages: [
        user,
        { role: "assistant", content: "", tool_calls: [call("f"), call("g")] },
        { role: "tool", content: "2", tool_name: "g" },
        { role: "tool", content: "1", tool_name: "f" },
      ],
    }) as { messages: Record<string, unknown>[] };
    expect(messages[1]!.tool_calls).toEqual([
      { id: "call_0", type: "function", function: { name: "f", arguments: '{"a":1}' } },
      { id: "call_1", type: "function", function: { name: "g", arguments: '{"a":1}' } },
    ]);
    expect(messages.slice(2).map((message) => message.tool_call_id)).toEqual(["call_1", "call_0"]);
  });

  it("keep the ids of calls, by which results find theirs", () => {
    const calls = ["a", "b"].map((id) => ({ id, function: { name: "f", arguments: {} } }));
    const results = ["b", "a", "other"].map((tool_call_id) => ({ role: "tool", content: "1", tool_call_id }));
    const { messages } = ofChat({ messages: [{ role: "assistant", tool_calls: calls }, ...results] }) as {
      messages: Record<string, unknown>[];
    };
    expect(messages[0]!.tool_calls).toMatchObject([{ id: "a" }, { id: "b" }]);
    expect(messages.slice(1).map((message) => message.tool_call_id)).toEqual(["b", "a", "call_0"]);
  });

  it("leave a call open where a result has another name", () => {
    const calls = ["f", "g"].map((name) => ({ function: { name, arguments: {} } }));
    const names = ["other", "g", null, "f"];
    const { messages } = ofChat({
      messages: [
        { role: "assistant", tool_calls: calls },
        ...names.map((tool_name) => ({ role: "tool", content: "1", tool_name })),
      ],
    }) as { messages: Record<string, unknown>[] };
    const ids = messages.slice(1).map((message) => message.tool_call_id);
    expect(ids).toEqual(["call_2", "call_1", "call_0", "call_3"]);
  });

  it.each([
    [() => ofChat({ messages: [{ ...user, images: ["aGk="] }] }), "messages[0].images"],
    [() => ofChat({ messages: "x" }), "messages"],
    [() => ofChat({ messages: [1] }), "messages[0]"],
    [() => ofChat({ messages: [], format: 3 }), "format"],
    [() => ofChat({ messages: [], options: [] }), "options"],
    [() => ofCompletion({ prompt: "a", template: "{{ .Prompt }}" }), "template"],
    [() => ofGenerate({ prompt: "a", context: [1] }), "context"],
    [() => ofGenerate({ prompt: "a", template: { toString: 1 } }), "template"],
    [() => ofGenerate({ prompt: "a", context: { toString: 1 } }), "context"],
    [() => ofCompletion({ prompt: "a", template: { toString: 1 } }), "template"],
    [() => ofCompletion({ prompt: ["a", "b"], raw: true }), "prompt"],
    [() => ofGenerate({ prompt: [{ type: "text", text: "a" }] }), "prompt"],
  ])("that cannot be one of OpenAI's are refused: %#", (make, param) => {
    expect(make).toThrow(expect.objectContaining({ param }));
  });

  it.each([undefined, null, "", []])("with the context %j have none", (context) => {
    expect(ofGenerate({ prompt: "a", context }).messages).toHaveLength(1);
  });

  it("of any form are a request or a coded error", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom("model", "messages", "format", "options", "think", "tools"), fc.jsonValue()),
        (body) => {
          try {
            expect(ofChat(body).messages).toBeInstanceOf(Array);
          } catch (thrown) {
            expect(thrown).toBeInstanceOf(MillraceError);
          }
        },
      ),
    );
  });
});

it("a name without a tag is the gateway's own; one with a tag may be", () => {
  expect(untagged("m:latest", ["m"])).toBe("m");
  expect(untagged("m:latest", ["m:latest"])).toBe("m:latest");
  expect(untagged("m:8b", ["m"])).toBe("m:8b");
  expect(untagged(undefined, ["m"])).toBeUndefined();
});

const EVENTS = [
  { choices: [{ delta: { role: "assistant", content: "" } }] },
  { choices: [{ delta: { reasoning: "hm" } }] },
  { choices: [{ delta: { content: "I " } }] },
  { choices: [{ delta: { content: "look – ü." } }] },
  { choices: [{ delta: { tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"a"' } }] } }] },
  { choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: ": 1}" } }] } }] },
  { choices: [{ delta: {}, finish_reason: "tool_calls" }] },
  { choices: [], usage: { prompt_tokens: 7, completion_tokens: 9 } },
];
const STREAM = Buffer.from(
  [...EVENTS.map((each) => JSON.stringify(each)), "[DONE]"].map((each) => `data: ${each}\n\n`).join(""),
);

function sinkFor(path: string) {
  const buffer = new BufferSink();
  const endpoint = ollamaEndpointOf(path)!;
  return { buffer, sink: ollamaSink(endpoint, { model: "m" }, {}, buffer, performance.now()) };
}

const textOf = (buffer: BufferSink): string => buffer.answer()!.body.toString("utf8");

describe("answers", () => {
  it("of a stream are the same lines wherever it is cut", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(STREAM.length), { maxLength: 8 }), (cuts) => {
        const { buffer, sink } = sinkFor("/api/chat");
        sink.begin({
          status: 200,
          headers: { "content-type": "text/event-stream", "content-length": "9" },
          isEventStream: true,
        });
        const places = [0, ...cuts.toSorted((a, b) => a - b), STREAM.length];
        for (const [i, place] of places.slice(1).entries()) sink.write(STREAM.subarray(places[i]!, place));
        sink.end();
        expect(buffer.answer()!.head.headers).toEqual({ "content-type": "application/x-ndjson" });
        const lines = textOf(buffer)
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line) as { message: object; done: boolean });
        expect(lines.map(({ message }) => message)).toEqual([
          { role: "assistant", content: "", thinking: "hm" },
          { role: "assistant", content: "I " },
          { role: "assistant", content: "look – ü." },
          {
            role: "assistant",
            content: "",
            tool_calls: [{ id: "a", function: { index: 0, name: "f", arguments: { a: 1 } } }],
          },
          { role: "assistant", content: "" },
        ]);
        expect(lines.at(-1)).toMatchObject({ done: true, done_reason: "stop", prompt_eval_count: 7, eval_count: 9 });
      }),
    );
  });

  it("that are whole are one object; errors have one text", () => {
    const { buffer, sink } = sinkFor("/api/generate");
    sink.begin({ status: 200, headers: { "content-length": "5" }, isEventStream: false });
    const choices = [{ message: { content: "Yes." }, finish_reason: "length" }];
    sink.end(Buffer.from(JSON.stringify({ choices, usage: { prompt_tokens: 1, completion_tokens: 2 } })));
    expect(JSON.parse(textOf(buffer))).toMatchObject({
      response: "Yes.",
      done: true,
      done_reason: "length",
      eval_count: 2,
    });
    const { total_duration, eval_duration, prompt_eval_duration } = JSON.parse(textOf(buffer)) as Record<
      string,
      number
    >;
    expect(total_duration).toBeGreaterThan(0);
    expect([eval_duration, prompt_eval_duration]).toEqual([total_duration, total_duration]);
    expect(buffer.answer()!.head.headers["content-length"]).toBeUndefined();
    const refused = sinkFor("/api/chat");
    refused.sink.begin({ status: 400, headers: {}, isEventStream: false });
    refused.sink.end(Buffer.from(JSON.stringify({ error: { message: "no", code: "invalid_parameter" } })));
    expect(JSON.parse(textOf(refused.buffer))).toEqual({ error: "no", code: "invalid_parameter" });
    expect(refused.buffer.answer()!.head.status).toBe(400);
    const strange = sinkFor("/api/chat");
    strange.sink.begin({ status: 502, headers: {}, isEventStream: false });
    strange.sink.end(Buffer.from("<html>"));
    expect(JSON.parse(textOf(strange.buffer))).toMatchObject({ code: "upstream_failed" });
  });

  it("of completions and of one text have their own fields", () => {
    const completion = sinkFor("/api/generate");
    completion.sink.begin({ status: 200, headers: {}, isEventStream: true });
    for (const text of ["on", "ce"]) completion.sink.write(Buffer.from(`data: {"choices":[{"text":"${text}"}]}\n\n`));
    completion.sink.end();
    const lines = textOf(completion.buffer).trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { response: string }).response)).toEqual(["on", "ce", ""]);
    const vector = sinkFor("/api/embeddings");
    vector.sink.begin({ status: 200, headers: {}, isEventStream: false });
    vector.sink.end(Buffer.from('{"data":[{"embedding":[1,0]}]}'));
    expect(JSON.parse(textOf(vector.buffer))).toEqual({ model: "m", embedding: [1, 0] });
  });

  it.each([
    ["/api/chat", { messages: [] }, { done: true, done_reason: "load", message: { role: "assistant", content: "" } }],
    ["/api/generate", { keep_alive: 0 }, { done: true, done_reason: "unload", response: "" }],
    ["/api/embed", { input: [] }, { embeddings: [], prompt_eval_count: 0 }],
    ["/api/embed", {}, { embeddings: [] }],
    ["/api/embed", { input: "" }, { embeddings: [] }],
    ["/api/embeddings", { prompt: "" }, { embedding: [] }],
  ])("of %s to a request for nothing are known", (path, body, expected) => {
    const endpoint = ollamaEndpointOf(path)!;
    const buffer = new BufferSink();
    expect(endpoint.isIdle(body)).toBe(true);
    answerIdle(endpoint, body, "m", buffer);
    expect(JSON.parse(textOf(buffer))).toMatchObject({ model: "m", ...expected });
    expect(endpoint.isIdle({ ...body, messages: [user], prompt: "a", input: ["a"] })).toBe(false);
  });

  it("of any form are read, or break off, and change nothing else", () => {
    const part = fc.dictionary(
      fc.constantFrom("choices", "usage", "data", "error", "__proto__"),
      fc.oneof(
        fc.jsonValue(),
        fc.array(fc.dictionary(fc.constantFrom("delta", "message", "finish_reason"), fc.jsonValue()), { maxLength: 2 }),
        fc.jsonValue().map((index) => [{ delta: { tool_calls: [{ index, function: { name: "f" } }] } }]),
      ),
    );
    fc.assert(
      fc.property(part, fc.boolean(), (answer, isEventStream) => {
        const { buffer, sink } = sinkFor("/api/chat");
        sink.begin({ status: 200, headers: {}, isEventStream });
        const text = JSON.stringify(answer);
        sink.end(Buffer.from(isEventStream ? `data: ${text}\n\n` : text));
        expect(buffer.answer()).toBeDefined();
        expect(Object.hasOwn(Array.prototype, "name")).toBe(false);
      }),
      {
        examples: [[{ choices: [{ delta: { tool_calls: [{ index: "__proto__", function: { name: "f" } }] } }] }, true]],
      },
    );
  });

  it.each(["data: {\n\n", 'data: {"error": {"message": "gone"}}\n\n'])("that cannot be read break off: %j", (bytes) => {
    const { buffer, sink } = sinkFor("/api/chat");
    sink.begin({ status: 200, headers: {}, isEventStream: true });
    sink.write(Buffer.from(bytes));
    sink.end();
    expect(buffer.answer()!.error?.code).toBe("upstream_failed");
  });
});
