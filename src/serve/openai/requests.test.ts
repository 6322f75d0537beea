/**
 * The accepted fields, refusals (with code and field) and answers of each endpoint, without a socket.
 * size: tables of cases, a line or two each; side by side they show gaps
 */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { fakeAppOptions, type LogLine } from "../../../test/helpers/fake-server.js";
import { BOS_ID, EOS_ID, FAKE_VOCAB_SIZE, fakeTokenizer, IM_END_ID } from "../../../test/helpers/fake-tokenizer.js";
import type { PromptContext } from "../http/context.js";
import { CHAT_RULES } from "./chat-completions.js";
import { parseFields } from "./fields.js";

type Json = Record<string, unknown>;

const post: typeof ask = async (...request) => {
  const answer = await ask(...request);
  expect(answer.fake.engine.numLive).toBe(0);
  return answer;
};

/** The codes of the log lines above the debug level. */
const aboveDebug = (lines: readonly LogLine[]) =>
  lines.filter(({ level }) => level !== "debug").map(({ fields }) => fields.code);

const chat = (fields: Json = {}): Json => ({ messages: [{ role: "user", content: "hi" }], max_tokens: 4, ...fields });
const completion = (fields: Json = {}): Json => ({ prompt: "hi", max_tokens: 4, ...fields });

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const RESPONSES = "/v1/responses";

type Refusal = readonly [name: string, path: string, body: unknown, code: string, param: string | null];

const REFUSALS: readonly Refusal[] = [
  ["broken JSON", CHAT, "{", "invalid_json", null],
  ["an empty body", CHAT, "", "invalid_json", null],
  ["NaN", CHAT, `{"messages":[],"temperature":NaN}`, "invalid_json", null],
  ["an array", CHAT, "[]", "invalid_json", null],
  ["null", COMPLETIONS, "null", "invalid_json", null],
  ["deep arrays", COMPLETIONS, `{"prompt":${"[".repeat(64)}${"]".repeat(64)}}`, "invalid_json", null],
  [
    "deep objects in an ignored field",
    COMPLETIONS,
    `{"prompt":"a","metadata":${'{"\\"\\\\":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
    "invalid_json",
    null,
  ],
  ["an unknown field", CHAT, chat({ temprature: 1 }), "unknown_field", "temprature"],
  [
    "__proto__",
    CHAT,
    `{"messages":[{"role":"user","content":"hi"}],"__proto__":{"n":3}}`,
    "unknown_field",
    "__proto__",
  ],
  [
    "an unknown field inside another",
    CHAT,
    chat({ stream: true, stream_options: { colour: 1 } }),
    "unknown_field",
    "stream_options.colour",
  ],
  [
    "a format nobody knows",
    CHAT,
    chat({ response_format: { type: "yaml" } }),
    "invalid_parameter",
    "response_format.type",
  ],
  [
    "a schema that cannot be kept",
    CHAT,
    chat({ structured_outputs: { json: { type: "string", pattern: "(?<=a)b" } } }),
    "invalid_parameter",
    "structured_outputs.json",
  ],
  [
    "two constraints",
    CHAT,
    chat({ structured_outputs: { regex: "a", choice: ["a"] } }),
    "invalid_parameter",
    "structured_outputs",
  ],
  [
    "a broken expression",
    CHAT,
    chat({ structured_outputs: { regex: "(" } }),
    "invalid_parameter",
    "structured_outputs.regex",
  ],
  [
    "groups in groups",
    CHAT,
    chat({ structured_outputs: { regex: `${"(?:".repeat(1500)}a${")".repeat(1500)}` } }),
    "invalid_parameter",
    "structured_outputs.regex",
  ],
  [
    "a schema of text that nests deeply",
    CHAT,
    chat({ structured_outputs: { json: `${'{"items":'.repeat(3000)}true${"}".repeat(3000)}` } }),
    "invalid_parameter",
    "structured_outputs.json",
  ],
  [
    "deep arrays for a schema of text",
    CHAT,
    chat({ structured_outputs: { json: `{"const":${"[".repeat(20_000)}${"]".repeat(20_000)}}` } }),
    "invalid_parameter",
    "structured_outputs.json",
  ],
  [
    "a format without an end",
    CHAT,
    chat({ response_format: { type: "json_object" }, ignore_eos: true }),
    "invalid_parameter",
    "ignore_eos",
  ],
  ["audio", CHAT, chat({ modalities: ["text", "audio"] }), "unsupported_field", "modalities"],
  [
    "a picture",
    CHAT,
    chat({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }),
    "unsupported_field",
    "messages[0].content[0].type",
  ],
  ["no messages", CHAT, { model: "fake" }, "invalid_parameter", "messages"],
  ["an empty conversation", CHAT, chat({ messages: [] }), "empty_prompt", "messages"],
  ["a strange role", CHAT, chat({ messages: [{ role: "cat", content: "" }] }), "invalid_parameter", "messages[0].role"],
  ["a user without content", CHAT, chat({ messages: [{ role: "user" }] }), "invalid_parameter", "messages[0].content"],
  ["a hot temperature", CHAT, chat({ temperature: 7 }), "invalid_parameter", "temperature"],
  [
    "an infinite temperature",
    CHAT,
    `{"messages":[{"role":"user","content":"x"}],"temperature":1e999}`,
    "invalid_parameter",
    "temperature",
  ],
  ["a temperature of text", CHAT, chat({ temperature: "1" }), "invalid_parameter", "temperature"],
  ["top_p above 1", CHAT, chat({ top_p: 1.5 }), "invalid_parameter", "top_p"],
  ["a broken top_k", CHAT, chat({ top_k: 1.5 }), "invalid_parameter", "top_k"],
  ["no choices", CHAT, chat({ n: 0 }), "invalid_parameter", "n"],
  ["too many choices", CHAT, chat({ n: 1e6 }), "invalid_parameter", "n"],
  ["no tokens", CHAT, chat({ max_tokens: 0 }), "invalid_parameter", "max_tokens"],
  ["no completion tokens", CHAT, chat({ max_completion_tokens: 0 }), "invalid_parameter", "max_completion_tokens"],
  ["top_logprobs alone", CHAT, chat({ top_logprobs: 3 }), "invalid_parameter", "top_logprobs"],
  ["too many top_logprobs", CHAT, chat({ logprobs: true, top_logprobs: 21 }), "invalid_parameter", "top_logprobs"],
  ["65 stops", CHAT, chat({ stop: Array(65).fill("x") }), "invalid_parameter", "stop"],
  [
    "stops that are too long together",
    CHAT,
    chat({ stop: Array(17).fill("x".repeat(4000)) }),
    "invalid_parameter",
    "stop",
  ],
  ["an empty stop", CHAT, chat({ stop: "" }), "invalid_parameter", "stop"],
  ["a bias for no token", CHAT, chat({ logit_bias: { cat: 1 } }), "invalid_parameter", "logit_bias"],
  ["a bias out of the vocabulary", CHAT, chat({ logit_bias: { 9999: 1 } }), "token_out_of_range", "logit_bias"],
  ["a stop token out of range", CHAT, chat({ stop_token_ids: [-1] }), "token_out_of_range", "stop_token_ids"],
  ["min above max tokens", CHAT, chat({ min_tokens: 9 }), "invalid_parameter", "min_tokens"],
  ["stream_options alone", CHAT, chat({ stream_options: {} }), "invalid_parameter", "stream_options"],
  [
    "two endings",
    CHAT,
    chat({ continue_final_message: true, add_generation_prompt: true }),
    "invalid_parameter",
    "add_generation_prompt",
  ],
  [
    "reserved kwargs",
    CHAT,
    chat({ chat_template_kwargs: { messages: [] } }),
    "invalid_parameter",
    "chat_template_kwargs.messages",
  ],
  ["another model", CHAT, chat({ model: "gpt" }), "model_not_found", "model"],
  ["no prompt", COMPLETIONS, {}, "invalid_parameter", "prompt"],
  ["an empty prompt", COMPLETIONS, completion({ prompt: "" }), "empty_prompt", "prompt"],
  ["an empty prompt of ids", COMPLETIONS, completion({ prompt: [] }), "empty_prompt", "prompt"],
  ["an empty prompt in a batch", COMPLETIONS, completion({ prompt: ["a", ""] }), "empty_prompt", "prompt[1]"],
  ["a mixed batch", COMPLETIONS, completion({ prompt: ["a", 1] }), "invalid_parameter", "prompt"],
  ["an id out of range", COMPLETIONS, completion({ prompt: [FAKE_VOCAB_SIZE] }), "token_out_of_range", "prompt"],
  ["a negative id", COMPLETIONS, completion({ prompt: [[1], [-1]] }), "token_out_of_range", "prompt[1]"],
  ["a huge id", COMPLETIONS, completion({ prompt: [4294967297] }), "token_out_of_range", "prompt"],
  ["a fractional id", COMPLETIONS, completion({ prompt: [1.5] }), "invalid_parameter", "prompt"],
  ["a suffix", COMPLETIONS, completion({ suffix: "x" }), "unsupported_field", "suffix"],
  ["best_of", COMPLETIONS, completion({ best_of: 4 }), "unsupported_field", "best_of"],
  ["nothing to do", COMPLETIONS, completion({ max_tokens: 0 }), "invalid_parameter", "max_tokens"],
  ["too many logprobs", COMPLETIONS, completion({ logprobs: 21 }), "invalid_parameter", "logprobs"],
  [
    "a prompt beyond the context",
    COMPLETIONS,
    completion({ prompt: Array(65).fill(97) }),
    "context_length_exceeded",
    "prompt",
  ],
  [
    "a prompt that fills the context",
    COMPLETIONS,
    completion({ prompt: Array(64).fill(97) }),
    "context_length_exceeded",
    "prompt",
  ],
  ["a response's tool", RESPONSES, { input: "a", tools: [{ type: "search" }] }, "unsupported_field", "tools[0].type"],
  [
    "a response's picture",
    RESPONSES,
    { input: [{ role: "user", content: [{ type: "input_image" }] }] },
    "unsupported_field",
    "input[0].content[0].type",
  ],
  ["no input", RESPONSES, {}, "invalid_parameter", "input"],
  ["an empty input", RESPONSES, { input: [] }, "empty_prompt", "input"],
  ["both inputs", "/tokenize", { prompt: "a", messages: [] }, "invalid_parameter", "prompt"],
  ["an id to detokenize", "/detokenize", { tokens: [FAKE_VOCAB_SIZE] }, "token_out_of_range", "tokens"],
];

describe("refusals", () => {
  it.each(REFUSALS)("%s to %s", async (_name, path, body, code, param) => {
    const answer = await post(path, body, { maxModelLen: 64 });
    expect(answer.body.error).toMatchObject({ code, param });
    expect(answer.status).toBe(code === "model_not_found" ? 404 : 400);
    expect(answer.body.error.message).toMatch(/expected .*got /);
    const refusals = answer.fake.lines.filter((line) => line.fields.code === code);
    expect(refusals).toHaveLength(1);
    expect(refusals[0]?.fields.requestId).toEqual(expect.any(String));
    expect(answer.fake.engine.submitted).toHaveLength(0);
  });

  it("accept brackets in strings and in siblings, which do not nest", async () => {
    const metadata = { a: '"'.repeat(3) + "[{".repeat(100), "\\": Array.from({ length: 100 }, () => [{}]) };
    expect((await post(COMPLETIONS, completion({ metadata }))).status).toBe(200);
  });

  it("of prompts that cannot fit come before tokenizing or decoding", async () => {
    const noWork = (): never => {
      throw new Error("tokenized");
    };
    // The server looks up the markers of tools and reasoning when it is created.
    const encode: typeof fakeTokenizer.encode = (text) => (text.length < 20 ? [] : noWork());
    const tokenizer = { ...fakeTokenizer, encode, decode: noWork };
    // The longest token has 12 characters, so 64 tokens hold 768.
    const text = "a".repeat(769);
    const bodies: readonly (readonly [string, object, string])[] = [
      [COMPLETIONS, completion({ prompt: text }), "768"],
      [COMPLETIONS, completion({ prompt: [text] }), "768"],
      [COMPLETIONS, completion({ prompt: Array(65).fill(97) }), "65 prompt tokens"],
      [CHAT, chat({ messages: [{ role: "user", content: text }] }), "768"],
      [CHAT, chat({ messages: Array(65).fill({ role: "user", content: "" }) }), "65 messages"],
    ];
    for (const [path, body, arithmetic] of bodies) {
      const answer = await post(path, body, { maxModelLen: 64 }, { tokenizer });
      expect(answer.body.error).toMatchObject({ code: "context_length_exceeded" });
      expect(answer.body.error.message).toContain(arithmetic);
    }
  });

  it("contain neither the prompt nor the key in log or answer", async () => {
    const secret = "a-secret-prompt-that-nobody-may-read-in-any-log-or-answer";
    const bodies = [
      `{"messages": "${secret}`,
      { messages: secret },
      chat({ stop: [secret, ""] }),
      { prompt: [secret, 1] },
    ];
    for (const body of bodies) {
      const answer = await post(CHAT, body);
      expect(JSON.stringify([answer.body, answer.fake.lines])).not.toContain(secret);
    }
  });
});

describe("a token that cannot be decoded", () => {
  it.each([CHAT, COMPLETIONS])("fails its own request only (%s)", async (path) => {
    const tokenBytes = (): never => {
      throw new Error("no such token");
    };
    const answer = await post(
      path,
      { ...(path === CHAT ? chat() : completion()), n: 2 },
      {},
      {
        tokenizer: { ...fakeTokenizer, tokenBytes },
      },
    );
    expect(answer.status).toBe(500);
    expect(aboveDebug(answer.fake.lines)).toEqual(["internal_error"]);
  });
});

describe("unknown fields as warnings", () => {
  it("are ignored and logged, also inside other fields", async () => {
    const body = chat({ colour: "red", response_format: { type: "text", mood: 1 } });
    const answer = await post(CHAT, body, {}, { unknownFields: "warn" });
    expect(answer.status).toBe(200);
    expect(aboveDebug(answer.fake.lines)).toEqual(["unknown_field", "unknown_field"]);
  });
});

describe("accepted and ignored", () => {
  it("OpenAI's bookkeeping fields, nulls, and values without effect", async () => {
    const inert = {
      user: "u",
      store: true,
      metadata: { a: "b" },
      service_tier: "auto",
      prompt_cache_key: "k",
      safety_identifier: "s",
      parallel_tool_calls: true,
      tools: [],
      tool_choice: "auto",
      response_format: { type: "text" },
      modalities: ["text"],
      temperature: null,
      stop: null,
      seed: null,
      audio: null,
    };
    const answer = await post(CHAT, chat(inert));
    expect(answer.status).toBe(200);
  });
});

describe("sampling parameters", () => {
  it("reach the engine, with the model's stop tokens", async () => {
    const fields = {
      temperature: 0.5,
      top_p: 0.9,
      top_k: 7,
      min_p: 0.1,
      presence_penalty: 1,
      frequency_penalty: -1,
      repetition_penalty: 1.1,
      seed: 5,
      min_tokens: 1,
      stop_token_ids: [3],
      logit_bias: { 4: -100 },
      cache_salt: "salt",
    };
    const { fake } = await post(COMPLETIONS, completion(fields));
    expect(fake.engine.submitted[0]?.cacheSalt).toBe("salt");
    expect(fake.engine.submitted[0]?.sampling).toEqual({
      temperature: 0.5,
      topP: 0.9,
      topK: 7,
      minP: 0.1,
      presencePenalty: 1,
      frequencyPenalty: -1,
      repetitionPenalty: 1.1,
      seed: 5n,
      maxTokens: 4,
      minTokens: 1,
      stopTokenIds: [EOS_ID, IM_END_ID, 3],
      logitBias: [[4, -100]],
      numLogprobs: undefined,
      numPromptLogprobs: undefined,
    });
  });

  it("have OpenAI's defaults; max_tokens in chat defaults to the rest of the context", async () => {
    const { fake } = await post(CHAT, { messages: [{ role: "user", content: "hi" }] }, { maxModelLen: 100 });
    const { sampling, promptIds } = fake.engine.submitted[0]!;
    expect(sampling).toMatchObject({ temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, minTokens: 0 });
    expect(sampling.maxTokens).toBe(100 - promptIds.length);
  });

  it("without a seed get a random one, and every choice gets its own", async () => {
    const { fake } = await post(CHAT, chat({ n: 3 }));
    const seeds = fake.engine.submitted.map((request) => request.sampling.seed);
    expect(new Set(seeds).size).toBe(3);
    const again = await post(CHAT, chat());
    expect(again.fake.engine.submitted[0]?.sampling.seed).not.toBe(seeds[0]);
    const batch = await post(COMPLETIONS, completion({ prompt: ["a", "a", "a"], n: 2, seed: 5 }));
    expect(new Set(batch.fake.engine.submitted.map(({ sampling }) => sampling.seed)).size).toBe(6);
    expect(batch.fake.engine.submitted[0]?.sampling.seed).toBe(5n);
  });

  it("are limited to as many log-probabilities of prompts as one answer can hold", async () => {
    const prompt = Array.from({ length: 1000 }, () => Array.from({ length: 600 }, () => 104));
    const { body } = await post(COMPLETIONS, completion({ prompt, prompt_logprobs: 20, max_tokens: 1 }));
    expect(body.error).toMatchObject({ code: "invalid_parameter", message: expect.stringContaining("got 12600000") });
  });

  it("convert negative seeds to 64 bits and an empty nucleus to the likeliest token", async () => {
    const { fake } = await post(CHAT, chat({ seed: -1, top_p: 0 }));
    expect(fake.engine.submitted[0]?.sampling).toMatchObject({ seed: 2n ** 64n - 1n, topK: 1, topP: 1 });
  });

  it("omit the model's stop tokens with ignore_eos", async () => {
    const script = () => [97, EOS_ID, 98, 99];
    const { body, fake } = await post(COMPLETIONS, completion({ ignore_eos: true }), { script });
    expect(fake.engine.submitted[0]?.sampling.stopTokenIds).toEqual([]);
    expect(body.choices[0]).toMatchObject({ text: "abc", finish_reason: "length" });
  });
});

describe("chat", () => {
  it("renders the template, parts and developer messages included", async () => {
    const messages = [
      { role: "developer", content: "be kind" },
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ];
    const { fake } = await post(CHAT, chat({ messages }));
    const text = fake.options.tokenizer.decode(fake.engine.submitted[0]!.promptIds, { keepSpecial: true });
    expect(text).toBe(
      "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  it("reports the first of many errors without checking the others", () => {
    const seen = { count: 0 };
    const later = {
      get role() {
        seen.count++;
        return undefined;
      },
    };
    const good = Array.from({ length: 300 }, () => ({ role: "user", content: "a" }));
    const messages = [...good, {}, ...Array.from({ length: 15_000 }, () => later)];
    const context = fakeAppOptions().options as unknown as PromptContext;
    const asker = { get: () => "", req: { path: "" } };
    expect(() => parseFields(asker, context, CHAT_RULES, { messages })).toThrow("messages[300].role: expected");
    // Only the piece with the first error is checked, twice.
    expect(seen.count).toBeLessThan(5 * 256);
  });

  it("accepts cache_control and other fields next to a text part, and refuses a million parts with one error", async () => {
    const send = async (content: unknown) => {
      const { status, body } = await post(CHAT, chat({ messages: [{ role: "user", content }] }));
      return [status, body.error?.code, body.error?.param];
    };
    const part = { type: "text", text: "a" };
    expect(await send([{ ...part, cache_control: { type: "ephemeral" } }])).toEqual([200, undefined, undefined]);
    expect(await send([{ ...part, colour: 1 }])).toEqual([200, undefined, undefined]);
    expect(await send([{ type: "text", content: "a" }])).toEqual([400, "invalid_parameter", "messages[0].content[0]"]);
    expect(await send(new Array(1_000_000).fill(0))).toEqual([400, "invalid_json", null]);
  });

  it("scores the prompt once, whatever the number of choices", async () => {
    const { fake } = await post(CHAT, chat({ n: 3, prompt_logprobs: 1 }));
    expect(fake.engine.submitted.map(({ sampling }) => sampling.numPromptLogprobs)).toEqual([1, undefined, undefined]);
  });

  it("leaves the last message open if the answer continues it", async () => {
    const messages = [
      { role: "user", content: "count" },
      { role: "assistant", content: "one, two" },
    ];
    const { fake } = await post(CHAT, chat({ messages, continue_final_message: true }));
    const text = fake.options.tokenizer.decode(fake.engine.submitted[0]!.promptIds, { keepSpecial: true });
    expect(text.endsWith("<|im_start|>assistant\none, two")).toBe(true);
  });

  it("is refused without a template", async () => {
    const { body, status } = await post(CHAT, chat(), {}, { chatTemplate: undefined });
    expect(status).toBe(400);
    expect(body.error.code).toBe("template_missing");
  });

  it("ends at a stop string and counts no token after it", async () => {
    const script = () => [...Buffer.from("one STOP two")];
    const { body, fake } = await post(CHAT, chat({ stop: ["STOP"], max_tokens: 50 }), { script });
    expect(body.choices[0].message.content).toBe("one ");
    expect(body.choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: "STOP" });
    expect(body.usage.completion_tokens).toBe(8);
    expect(fake.engine.numAborted).toBe(1);
    const kept = await post(CHAT, chat({ stop: "STOP", max_tokens: 50, include_stop_str_in_output: true }), { script });
    expect(kept.body.choices[0].message.content).toBe("one STOP");
  });

  it("takes 64 stop strings, and says the bounds of a seed to the last digit", async () => {
    const stop = [...Array(63).fill("zz"), "b"];
    const { body } = await post(CHAT, chat({ stop, max_tokens: 9 }), writing("abc"));
    expect(body.choices[0]).toMatchObject({ message: { content: "a" }, stop_reason: "b" });
    const refused = await post(CHAT, chat({ seed: 2 ** 64 }));
    expect(refused.body.error.message).toContain("[-9223372036854775808, 9223372036854775807]");
  });

  it("finds no stop string within the first min_tokens tokens", async () => {
    const script = () => [...Buffer.from("xaxa")];
    const { body } = await post(CHAT, chat({ stop: "a", min_tokens: 2 }), { script });
    expect(body.choices[0].message.content).toBe("xax");
  });

  it("shows special tokens only on request", async () => {
    const script = () => [97, BOS_ID, 98, EOS_ID];
    const hidden = await post(CHAT, chat({ max_tokens: 9 }), { script });
    expect(hidden.body.choices[0].message.content).toBe("ab");
    const shown = await post(CHAT, chat({ max_tokens: 9, skip_special_tokens: false }), { script });
    expect(shown.body.choices[0].message.content).toBe("a<s>b");
  });
});

describe("completions", () => {
  it("scores a prompt without generating, with ids as tokens", async () => {
    const request = { prompt: [97, 98, 99], echo: true, logprobs: 2, max_tokens: 0, return_tokens_as_token_ids: true };
    const { body } = await post(COMPLETIONS, request);
    const choice = body.choices[0];
    expect(choice.text).toBe("abc");
    expect(choice.finish_reason).toBe("length");
    expect(choice.logprobs.tokens).toEqual(["token_id:97", "token_id:98", "token_id:99"]);
    expect(choice.logprobs.token_logprobs).toEqual([null, -0.375, -0.5]);
    expect(choice.logprobs.top_logprobs).toEqual([
      null,
      { "token_id:98": -0.375, "token_id:99": -1.375 },
      { "token_id:99": -0.5, "token_id:100": -1.5 },
    ]);
    expect(choice.logprobs.text_offset).toEqual([0, 1, 2]);
    expect(body.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 0 });
  });

  it("counts a prompt once, whatever its choices, and orders choices by prompt", async () => {
    const { body } = await post(COMPLETIONS, completion({ prompt: ["a", "bc"], n: 2, max_tokens: 2 }));
    expect(body.choices.map((choice) => choice.text)).toEqual(["aa", "aa", "bc", "bc"]);
    expect(body.choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3]);
    expect(body.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 8, total_tokens: 13 });
  });

  it("returns vLLM's prompt_logprobs", async () => {
    const { body } = await post(COMPLETIONS, completion({ prompt: [97, 98], prompt_logprobs: 1 }));
    expect(body.choices[0].prompt_logprobs).toEqual([null, { 98: { logprob: -0.375, rank: 1, decoded_token: "b" } }]);
  });

  it("returns offsets in code points, also after an echo", async () => {
    const request = completion({ prompt: "😀", echo: true, logprobs: 0, max_tokens: 8 });
    const { body } = await post(COMPLETIONS, request);
    expect(body.choices[0].text).toBe("😀😀😀");
    expect(body.choices[0].logprobs.text_offset).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
  });
});

describe("tokenize and detokenize", () => {
  it("are inverse to each other", async () => {
    const tokens = await post("/tokenize", { prompt: "hé", return_token_strs: true });
    expect(tokens.body).toEqual({
      count: 4,
      max_model_len: 4096,
      tokens: [BOS_ID, 104, 0xc3, 0xa9],
      token_strs: ["<s>", "h", "bytes:\\xc3", "bytes:\\xa9"],
    });
    const text = await post("/detokenize", { tokens: [104, 0xc3, 0xa9] });
    expect(text.body).toEqual({ prompt: "hé", content: "hé" });
  });

  it("accept chats", async () => {
    const { body } = await post("/tokenize", { messages: [{ role: "user", content: "a" }] });
    const { fake, ...rest } = await post("/detokenize", { tokens: body.tokens });
    expect(rest.body.prompt).toBe("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
    expect(fake.engine.submitted).toHaveLength(0);
  });
});
