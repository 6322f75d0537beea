/** vLLM's additions to OpenAI's fields, complete and streamed. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { thinkingTemplate } from "../../../test/helpers/chat-templates.js";
import { chatMl, startFakeServer } from "../../../test/helpers/fake-server.js";
import { BOS_ID, EOS_ID, fakeTokenizer, IM_START_ID } from "../../../test/helpers/fake-tokenizer.js";
import { MAX_TRUNCATED_LENGTH } from "./prompt-size.js";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const chat = (fields: object) => ({ messages: [{ role: "user", content: "hi" }], ...fields });
const bytes = (text: string) => [...Buffer.from(text)];

async function chunksOf(path: string, body: object, text: string, chatTemplate = chatMl) {
  const fake = await startFakeServer(writing(text), { chatTemplate });
  try {
    const init = { method: "POST", body: JSON.stringify({ ...body, stream: true }) };
    const answer = await (await fetch(`${fake.server.url}${path}`, init)).text();
    const events = answer.split("\n\n").filter((event) => event.startsWith("data: {"));
    return events.map((event) => JSON.parse(event.slice("data: ".length)));
  } finally {
    await fake.server.close();
  }
}

describe("return_token_ids", () => {
  const asked = { return_token_ids: true };

  it("returns the ids of chats, complete and streamed", async () => {
    const { body, fake } = await ask(CHAT, chat(asked), writing("aye"));
    const prompt = Array.from(fake.engine.submitted[0]!.promptIds);
    expect(prompt[0]).toBe(IM_START_ID);
    expect(body).toMatchObject({ prompt_token_ids: prompt, choices: [{ token_ids: [...bytes("aye"), EOS_ID] }] });
    const chunks = await chunksOf(CHAT, chat(asked), "aye");
    expect(chunks.map((chunk) => chunk.prompt_token_ids)).toEqual([prompt, ...chunks.slice(1).map(() => undefined)]);
    expect(chunks.flatMap(({ choices }) => choices[0].token_ids ?? [])).toEqual([...bytes("aye"), EOS_ID]);
    const { body: without } = await ask(CHAT, chat({}), writing("aye"));
    expect(without).toMatchObject({ prompt_token_ids: null, choices: [{ token_ids: null }] });
    expect(JSON.stringify(await chunksOf(CHAT, chat({}), "aye"))).not.toContain("token_ids");
  });

  it("returns the ids of completions, complete and streamed, also for tokens without text", async () => {
    const { body } = await ask(COMPLETIONS, { prompt: [[1, 2], [3]], ...asked }, writing("é"));
    expect(body.choices).toMatchObject([{ prompt_token_ids: [1, 2] }, { prompt_token_ids: [3] }]);
    const { body: without } = await ask(COMPLETIONS, { prompt: [1, 2] }, writing("é"));
    expect(without.choices[0]).toMatchObject({ prompt_token_ids: null, token_ids: null });
    const chunks = await chunksOf(COMPLETIONS, { prompt: [1, 2], ...asked }, "é");
    expect(chunks[0].choices[0].prompt_token_ids).toEqual([1, 2]);
    expect(chunks.flatMap(({ choices }) => choices[0].token_ids)).toEqual([...bytes("é"), EOS_ID]);
  });
});

it("usage: {include: true} asks a stream for the counts, as stream_options does", async () => {
  const asked = await chunksOf(CHAT, chat({ usage: { include: true } }), "aye");
  expect(asked.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 4 } });
  expect(JSON.stringify(await chunksOf(CHAT, chat({ usage: { include: false } }), "aye"))).not.toContain("usage");
});

it("include_reasoning: false omits reasoning, complete and streamed", async () => {
  const text = "hm</think>yes";
  const options = { chatTemplate: thinkingTemplate };
  const shown = await ask(CHAT, chat({}), writing(text), options);
  expect(shown.body.choices[0].message).toMatchObject({ content: "yes", reasoning: "hm" });
  const { body } = await ask(CHAT, chat({ include_reasoning: false }), writing(text), options);
  expect(body.choices[0].message).toEqual({ role: "assistant", content: "yes", refusal: null });
  const chunks = await chunksOf(CHAT, chat({ include_reasoning: false }), text, thinkingTemplate);
  expect(JSON.stringify(chunks)).not.toContain("reasoning_content");
  expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe("yes");
});

it("prompt_logprobs is null where a request asks for none", async () => {
  expect((await ask(CHAT, chat({}), writing("aye"))).body).toHaveProperty("prompt_logprobs", null);
  const { body } = await ask(COMPLETIONS, { prompt: "a" }, writing("aye"));
  expect(body.choices[0]).toHaveProperty("prompt_logprobs", null);
});

it("continuous_usage_stats count nothing beside the role", async () => {
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  const chunks = await chunksOf(CHAT, chat({ stream_options }), "aye");
  expect(chunks.map(({ usage }) => usage.completion_tokens)).toEqual([0, 1, 2, 3, 4, 4]);
});

it("an error about logit_bias names the entry", async () => {
  const { body } = await ask(CHAT, chat({ logit_bias: { 5: 1, cat: 2 } }));
  expect(body.error.message).toContain('in [-100, 100], got "cat": 2');
  const { body: list } = await ask(CHAT, chat({ logit_bias: [1] }));
  expect(list.error.message).toContain("got an array of 1");
});

describe("echo", () => {
  const messages = [
    { role: "user", content: "hi" },
    { role: "assistant", content: [{ type: "text", text: "An app" }] },
  ];
  const asked = { messages, continue_final_message: true, echo: true };

  it("of a chat puts the message that is continued before the answer, complete and streamed", async () => {
    const { body, prompt } = await ask(CHAT, { ...asked, n: 2 }, writing("le"));
    expect(prompt).toMatch(/An app$/);
    expect(body.choices.map(({ message }) => message.content)).toEqual(["An apple", "An apple"]);
    for (const template of [chatMl, thinkingTemplate]) {
      const chunks = await chunksOf(CHAT, asked, "le", template);
      expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe("An apple");
    }
    const without = await ask(CHAT, { ...asked, echo: false }, writing("le"));
    expect(without.body.choices[0].message.content).toBe("le");
  });

  it("of a chat does not put a user's message there", async () => {
    expect((await ask(CHAT, chat({ echo: true }), writing("le"))).body.choices[0].message.content).toBe("le");
  });
});

it("/load tells how many sequences run and wait", async () => {
  const { server, engine } = await startFakeServer(writing("ok"));
  const stats = engine.stats();
  engine.stats = () => ({ ...stats, numRunning: 2, numWaiting: 3 });
  expect(await (await fetch(`${server.url}/load`)).json()).toEqual({ server_load: 5 });
  await server.close();
});

describe("truncate_prompt_tokens", () => {
  it("keeps the beginning where truncation_side is right", async () => {
    const cut = { truncate_prompt_tokens: 3, truncation_side: "right" };
    expect((await ask(COMPLETIONS, { prompt: "abcdef", add_special_tokens: false, ...cut })).prompt).toBe("abc");
    expect((await ask(COMPLETIONS, { prompt: bytes("abcdef"), ...cut })).prompt).toBe("abc");
    expect((await ask(CHAT, chat({ ...cut, truncate_prompt_tokens: 7 }))).prompt).toBe("<|im_start|>user\nh");
  });

  it.each([
    ["a text", COMPLETIONS, { prompt: "abcdef", add_special_tokens: false }],
    ["ids", COMPLETIONS, { prompt: bytes("abcdef") }],
    ["an embedding's input", "/v1/embeddings", { input: "abcdef", add_special_tokens: false }],
  ])("keeps the end of %s", async (_, path, body) => {
    const { prompt, status } = await ask(path, { ...body, truncate_prompt_tokens: 3 });
    expect([status, prompt]).toEqual([200, "def"]);
    expect((await ask(path, { ...body, truncate_prompt_tokens: 30 })).prompt).toBe("abcdef");
  });

  it("keeps as much of a prompt as the context holds", async () => {
    const prompt = "x".repeat(100_000);
    const { fake, status } = await ask(COMPLETIONS, { prompt, truncate_prompt_tokens: -1, max_tokens: 6 });
    expect([status, fake.engine.submitted[0]?.promptIds.length]).toEqual([200, 4090]);
    const messages = [{ role: "user", content: prompt }];
    const long = await ask(CHAT, { messages, truncate_prompt_tokens: -1, max_tokens: 6 }, writing("ok"));
    expect([long.status, long.fake.engine.submitted[0]?.promptIds.length]).toEqual([200, 4090]);
    expect(long.prompt).toMatch(/<\|im_start\|>assistant\n$/);
    const embedded = await ask("/v1/embeddings", { input: prompt, truncate_prompt_tokens: -1 });
    expect(embedded.fake.engine.submitted[0]?.promptIds.length).toBe(4096);
  });

  it("tokenizes a bounded amount of text, for all prompts together", async () => {
    const truncate_prompt_tokens = 1;
    // Eight characters per token of the context do not count.
    const usual = "x".repeat(8 * 4096);
    const half = `${"x".repeat(MAX_TRUNCATED_LENGTH / 2)}${usual}`;
    expect((await ask(COMPLETIONS, { prompt: [half, half, usual, usual], truncate_prompt_tokens })).status).toBe(200);
    const tooLong: readonly [string, string, object][] = [
      [COMPLETIONS, "prompt", { prompt: [half, half, `${usual}x`] }],
      [COMPLETIONS, "prompt", { prompt: `${half}${half}` }],
      ["/v1/embeddings", "input", { input: [half, half, `${usual}x`] }],
      [CHAT, "messages", { messages: [{ role: "user", content: `${half}${half}` }] }],
    ];
    for (const [path, param, fields] of tooLong) {
      const { status, body } = await ask(path, { ...fields, truncate_prompt_tokens });
      expect([path, status, body.error]).toMatchObject([path, 400, { code: "invalid_parameter", param }]);
      expect(body.error.message).toContain(`${param}: expected at most ${MAX_TRUNCATED_LENGTH} characters`);
    }
  });

  it("echoes the tokens that are kept", async () => {
    const body = { prompt: "abcdef", truncate_prompt_tokens: 2, echo: true };
    expect((await ask(COMPLETIONS, body, writing("g"))).body.choices[0].text).toBe("efg");
  });

  it("refuses other numbers and invalid ids", async () => {
    for (const truncate_prompt_tokens of [0, -2, 1.5, "3"]) {
      const { body } = await ask(COMPLETIONS, { prompt: "a", truncate_prompt_tokens });
      expect(body.error).toMatchObject({ code: "invalid_parameter", param: "truncate_prompt_tokens" });
    }
    const { body } = await ask(COMPLETIONS, { prompt: [1, 2 ** 40, 3], truncate_prompt_tokens: 2 });
    expect(body.error.code).toBe("token_out_of_range");
  });
});

describe("suffix", () => {
  const [prefix, suffix, middle] = [1, 2, 3];
  const tokenizer = { ...fakeTokenizer, infill: { prefix, suffix, middle } };

  it("is accepted for a model that was trained for infilling", async () => {
    const { fake, status } = await ask(COMPLETIONS, { prompt: "ab", suffix: "cd" }, writing("x"), { tokenizer });
    expect(status).toBe(200);
    expect(Array.from(fake.engine.submitted[0]!.promptIds)).toEqual([
      BOS_ID,
      prefix,
      ...bytes("ab"),
      suffix,
      ...bytes("cd"),
      middle,
    ]);
    const plain = await ask(COMPLETIONS, { prompt: "ab", suffix: "" }, writing("x"), { tokenizer });
    expect(plain.prompt).toBe("<s>ab");
  });

  it("is refused for other models, and together with echo", async () => {
    const { body } = await ask(COMPLETIONS, { prompt: "ab", suffix: "cd" });
    expect(body.error).toMatchObject({ code: "unsupported_field", param: "suffix" });
    const echoed = await ask(COMPLETIONS, { prompt: "ab", suffix: "cd", echo: true }, {}, { tokenizer });
    expect(echoed.body.error).toMatchObject({ code: "invalid_parameter", param: "echo" });
  });
});

describe("allowed tokens", () => {
  it("reach the engine", async () => {
    const fields = { allowed_token_ids: [97, 98], bad_words: ["ab", " c"] };
    const { fake } = await ask(CHAT, chat(fields), writing("a"));
    const { allowedTokenIds, badWords } = fake.engine.submitted[0]!.sampling;
    expect(allowedTokenIds).toEqual([97, 98]);
    expect(badWords).toEqual([bytes("ab"), bytes("c")]);
  });

  it("are refused if the list is empty or invalid", async () => {
    const codeOf = async (fields: object) => (await ask(CHAT, chat(fields))).body.error?.code;
    expect(await codeOf({ bad_words: [""] })).toBe("invalid_parameter");
    expect(await codeOf({ bad_words: "a" })).toBe("invalid_parameter");
    // Tokenizing megabytes would delay all other requests.
    expect(await codeOf({ bad_words: ["a".repeat(257)] })).toBe("invalid_parameter");
    expect(await codeOf({ allowed_token_ids: ["a"] })).toBe("invalid_parameter");
  });
});
