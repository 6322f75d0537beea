/** Fixed expectations of other servers' clients: fields they echo, words they match, and endpoints they ask first. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../test/helpers/ask.js";
import { thinkingTemplate, toolTemplate } from "../../test/helpers/chat-templates.js";
import { chatMl, fakeAppOptions, startFakeServer } from "../../test/helpers/fake-server.js";
import { BOS_ID } from "../../test/helpers/fake-tokenizer.js";
import { createApp } from "./app.js";
import type { AppOptions } from "./http/context.js";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const RESPONSES = "/v1/responses";
const MESSAGES = "/v1/messages";

const hi = { role: "user", content: "hi" };

describe("fields that clients send back with a conversation", () => {
  const call = {
    id: "c1",
    type: "function",
    index: 0,
    extra_content: {},
    function: { name: "f", arguments: "{}", x: 1 },
  };
  const echoed = {
    provider_specific_fields: { refusal: null },
    reasoning_details: [{ type: "reasoning.text", text: "hm" }],
    annotations: [],
    images: [],
    async_: null,
  };
  const BODIES: readonly (readonly [name: string, path: string, body: object])[] = [
    ["LiteLLM's own reply", CHAT, { messages: [hi, { role: "assistant", content: "a", ...echoed }, hi] }],
    [
      "unknown fields of calls and their functions",
      CHAT,
      {
        messages: [
          hi,
          { role: "assistant", content: null, tool_calls: [call], ...echoed },
          { role: "tool", content: "1", tool_call_id: "c1", ...echoed },
        ],
      },
    ],
    ["unknown fields of parts", CHAT, { messages: [{ ...hi, content: [{ type: "text", text: "a", colour: 1 }] }] }],
    ["a refusal", CHAT, { messages: [{ role: "assistant", content: [{ type: "refusal", refusal: "no" }] }, hi] }],
    ["unknown nulls", CHAT, { messages: [hi], mm_processor_kwargs: null, stream: false }],
    [
      "unknown nulls inside alternatives",
      CHAT,
      { messages: [hi], response_format: { type: "text", json_schema: null, strict: null } },
    ],
    ["unknown nulls of completions", COMPLETIONS, { prompt: "hi", async_: null }],
    ["a refusal among items", RESPONSES, { input: [{ ...hi, content: [{ type: "refusal", refusal: "no" }] }] }],
    [
      "unknown fields of items",
      RESPONSES,
      {
        input: [
          { ...hi, ...echoed },
          {
            type: "reasoning",
            id: "r",
            summary: [],
            content: [{ type: "reasoning_text", text: "hm", x: 1 }],
            ...echoed,
          },
          { type: "function_call", call_id: "c1", name: "f", arguments: "{}", namespace: null, ...echoed },
          { type: "function_call_output", call_id: "c1", output: "1", ...echoed },
        ],
        provider: null,
      },
    ],
    [
      "unknown fields of blocks",
      MESSAGES,
      {
        max_tokens: 4,
        anything: null,
        messages: [
          { ...hi, content: [{ type: "text", text: "a", citations: null, colour: 1 }], ...echoed },
          {
            role: "assistant",
            content: [
              { type: "thinking", thinking: "hm", signature: null, colour: 1 },
              { type: "tool_use", id: "t", name: "f", input: {}, colour: 1 },
            ],
          },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: null, colour: 1 }] },
        ],
      },
    ],
  ];
  it.each(BODIES)("%s", async (_, path, body) => {
    const answer = await ask(path, body, writing("ok"));
    expect(answer.body.error ?? null).toBeNull();
    expect(answer.status).toBe(200);
  });

  it("but unknown fields of the request are refused by name", async () => {
    for (const [path, body] of [
      [CHAT, { messages: [hi], temprature: 1 }],
      [COMPLETIONS, { prompt: "hi", temprature: 1 }],
      [RESPONSES, { input: "hi", temprature: 1 }],
      [MESSAGES, { messages: [hi], max_tokens: 4, temprature: 1 }],
    ] as const) {
      const { status, body: answer } = await ask(path, body);
      expect(status).toBe(400);
      expect(answer.error.message).toContain('got "temprature"');
    }
  });

  it("and a refusal reaches the model as what was said", async () => {
    const message = { role: "assistant", content: [{ type: "refusal", refusal: "I will not" }] };
    expect((await ask(CHAT, { messages: [message, hi] }, writing("ok"))).prompt).toContain("I will not");
  });
});

describe("usage in every chunk of a stream", () => {
  const chunksOf = async (path: string, body: object) => {
    const fake = await startFakeServer(writing("one two"));
    try {
      const stream = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
      const init = { method: "POST", body: JSON.stringify({ ...body, ...stream }) };
      const text = await (await fetch(`${fake.server.url}${path}`, init)).text();
      const datas = text.split("\n\n").filter((event) => event.startsWith("data: {"));
      return datas.map((event) => JSON.parse(event.slice("data: ".length)));
    } finally {
      await fake.server.close();
    }
  };

  it.each([
    [CHAT, { messages: [hi] }],
    [COMPLETIONS, { prompt: ["a", "abc"], n: 2, max_tokens: 100 }],
  ])("%s", async (path, body) => {
    const chunks = await chunksOf(path, body);
    expect(chunks.every(({ usage }) => usage.total_tokens === usage.prompt_tokens + usage.completion_tokens)).toBe(
      true,
    );
    const last = chunks.at(-1);
    expect(last.choices).toEqual([]);
    const ends = chunks.filter(({ choices }) => choices[0]?.finish_reason != null);
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    expect(sum(ends.map(({ usage }) => usage.completion_tokens))).toBe(last.usage.completion_tokens);
    const prompts = ends.map(({ choices, usage }) => [choices[0].index, usage.prompt_tokens]);
    if (path === COMPLETIONS)
      expect(prompts.sort()).toEqual([
        [0, 2],
        [1, 2],
        [2, 4],
        [3, 4],
      ]);
  });
});

describe("what evaluation tools ask of the tokenizer", () => {
  it("its special tokens and the chat template", async () => {
    const chatTemplate = { ...chatMl, source: "plain{# for tools #}", plainSource: "plain" };
    const app = createApp(fakeAppOptions({}, { chatTemplate }).options);
    const info = (await (await app.request("/tokenizer_info")).json()) as Record<string, unknown>;
    expect(info).toMatchObject({
      tokenizer_class: "PreTrainedTokenizerFast",
      bos_token: "<s>",
      eos_token: "</s>",
      pad_token: "</s>",
      bos_token_id: BOS_ID,
      add_bos_token: true,
      chat_template: "plain",
    });
    const post = async (path: string, body: object) =>
      (await app.request(path, { method: "POST", body: JSON.stringify(body) })).json();
    const encoded = await post("/tokenize", { prompt: "</s>", add_special_tokens: false });
    expect(encoded).toMatchObject({ count: 1, tokens: [info.eos_token_id] });
    expect(await post("/detokenize", { tokens: [104, 105] })).toEqual({ prompt: "hi", content: "hi" });
  });
});

describe("words by which clients know that the context is too short", () => {
  const long = "a".repeat(5000);
  it.each([
    [CHAT, { messages: [{ role: "user", content: long }] }],
    [CHAT, { messages: new Array(5000).fill(hi) }],
    [COMPLETIONS, { prompt: long }],
    [COMPLETIONS, { prompt: "a".repeat(100_000) }],
    [COMPLETIONS, { prompt: new Array(5000).fill(97) }],
    [RESPONSES, { input: long }],
    [MESSAGES, { max_tokens: 4, messages: [{ role: "user", content: long }] }],
    ["/v1/embeddings", { input: long }],
    ["/v1/embeddings", { input: [new Array(5000).fill(97)] }],
  ])("%s", async (path, body) => {
    const { status, body: answer } = await ask(path, body);
    expect(status).toBe(400);
    expect(answer.error.message.toLowerCase()).toContain("this model's maximum context length is 4096 tokens");
    const isOfAnswers = answer.error.message.includes("room for an answer");
    if (path === "/v1/embeddings") expect(isOfAnswers).toBe(false);
  });
});

describe("what Anthropic's clients of today send", () => {
  const schema = {
    type: "object",
    properties: { a: { type: "integer" } },
    required: ["a"],
    additionalProperties: false,
  };
  const format = { type: "json_schema", schema };
  const send = async (fields: object, overrides: Partial<AppOptions> = {}) => {
    const answer = await ask(MESSAGES, { max_tokens: 20, messages: [hi], ...fields }, writing('{"a": 1}'), overrides);
    return { ...answer, body: answer.body as unknown as Record<string, unknown>, error: answer.body.error };
  };

  it.each([
    ["output_config.format", { output_config: { format } }],
    ["output_format", { output_format: format }],
  ])("%s prescribes the answer's form", async (_, fields) => {
    const { status, body, grammar } = await send(fields);
    expect(status).toBe(200);
    expect(grammar).toContain("root");
    expect(body.content).toEqual([{ type: "text", text: '{"a": 1}' }]);
    expect((await send({})).grammar).toBeUndefined();
  });

  it("a form that cannot be kept is refused by its name, and so are two forms", async () => {
    const never = { type: "json_schema", schema: { not: {} } };
    expect((await send({ output_config: { format: never } })).error.message).toContain("output_config.format.schema");
    expect((await send({ output_config: { format }, output_format: format })).error.message).toContain("got both");
  });

  it("effort reaches templates that take one", async () => {
    const { prompt } = await send({ output_config: { effort: "max" } }, { chatTemplate: thinkingTemplate });
    expect(prompt).toContain("xhigh");
  });

  it("context_management is taken, and no edit is claimed", async () => {
    const context_management = {
      edits: [{ type: "clear_tool_uses_20250919", trigger: { type: "input_tokens", value: 9 } }],
    };
    const { status, body } = await send({ context_management });
    expect([status, body.context_management]).toEqual([200, { applied_edits: [] }]);
    expect((await send({})).body).not.toHaveProperty("context_management");
  });

  it("tools may have examples", async () => {
    const tool = { name: "f", input_schema: { type: "object" }, input_examples: [{ a: 1 }] };
    expect((await send({ tools: [tool] }, { chatTemplate: toolTemplate })).status).toBe(200);
  });

  it("batches are not found, in Anthropic's words, and models are listed in both vendors'", async () => {
    const app = createApp(fakeAppOptions().options);
    const batches = await app.request("/v1/messages/batches", { method: "POST", body: "{}" });
    expect(batches.status).toBe(404);
    expect(await batches.json()).toMatchObject({ type: "error", error: { type: "not_found_error" } });
    const list = (await (await app.request("/v1/models")).json()) as { data: object[] };
    expect(list).toMatchObject({ object: "list", has_more: false, first_id: "fake", last_id: "fake" });
    expect(list.data[0]).toMatchObject({ object: "model", type: "model", display_name: "fake", owned_by: "millrace" });
    const { max_model_len: length } = list.data[0] as { max_model_len: number };
    expect(list.data[0]).toMatchObject({ lifecycle: "active", max_input_tokens: length, max_tokens: length });
    const missing = await app.request("/v1/models/other", { headers: { "anthropic-version": "2023-06-01" } });
    expect(await missing.json()).toMatchObject({ type: "error", error: { type: "not_found_error" } });
  });
});

describe("allowed_tools", () => {
  const tools = ["f", "g"].map((name) => ({ type: "function", function: { name } }));
  const choiceOf = (mode: string, name = "g") => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: [{ type: "function", function: { name } }] },
  });
  const send = (body: object, text = "ok", path = CHAT) =>
    ask(path, body, writing(text), { chatTemplate: toolTemplate });
  const call = (name: string) => `<tool_call>\n{"name": "${name}", "arguments": {}}\n</tool_call>`;

  it("are those that the model sees, and those whose calls are read", async () => {
    const { prompt } = await send({ messages: [hi], tools, tool_choice: choiceOf("auto") });
    expect(prompt).toContain('"name": "g"');
    expect(prompt).not.toContain('"name": "f"');
    const finishOf = async (name: string) =>
      (await send({ messages: [hi], tools, tool_choice: choiceOf("auto") }, call(name))).body.choices[0].finish_reason;
    expect([await finishOf("f"), await finishOf("g")]).toEqual(["stop", "tool_calls"]);
  });

  it("may be required", async () => {
    const { grammar } = await send({ messages: [hi], tools, tool_choice: choiceOf("required") });
    expect(grammar).toContain("g");
    expect(grammar).not.toContain('\\"f\\"');
  });

  it("must be among the tools, in responses too", async () => {
    const { body } = await send({ messages: [hi], tools, tool_choice: choiceOf("auto", "h") });
    expect(body.error).toMatchObject({ code: "invalid_parameter", param: "tool_choice" });
    const flat = ["f", "g"].map((name) => ({ type: "function", name }));
    const choice = { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "g" }] };
    const { prompt } = await send({ input: "hi", tools: flat, tool_choice: choice }, "ok", RESPONSES);
    expect(prompt).not.toContain('"name": "f"');
  });
});
