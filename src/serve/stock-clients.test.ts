/** What clients of other servers send and look for, as they stand: fields they echo, words they match, endpoints they ask first. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../test/helpers/ask.js";
import { chatMl, fakeAppOptions, startFakeServer } from "../../test/helpers/fake-server.js";
import { BOS_ID } from "../../test/helpers/fake-tokenizer.js";
import { createApp } from "./app.js";

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
    expect(await post("/detokenize", { tokens: [104, 105] })).toEqual({ prompt: "hi" });
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
