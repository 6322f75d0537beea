/** llama-server's API in front of a fake engine with known answers. */
import { afterEach, describe, expect, it } from "vitest";
import { toolTemplate } from "../../../test/helpers/chat-templates.js";
import type { FakeServer } from "../../../test/helpers/fake-server.js";
import { BOS_ID } from "../../../test/helpers/fake-tokenizer.js";
import { startAnswering } from "../../../test/helpers/tool-agent.js";

let fake: FakeServer | undefined;

afterEach(async () => {
  expect(fake?.engine.numLive).toBe(0);
  await fake?.server.close();
  fake = undefined;
});

async function ask(path: string, body?: object): Promise<Response> {
  fake ??= await startAnswering((prompt) => (prompt === "lines" ? "one\ntwo" : "one two three"), toolTemplate);
  return await fetch(fake.server.url + path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
}

type Json = Record<string, unknown>;

const events = async (response: Response): Promise<Json[]> =>
  (await response.text())
    .split("\n\n")
    .filter((each) => each !== "")
    .map((each) => JSON.parse(each.replace(/^data: /, "")) as Json);

describe("/completion", () => {
  it("comes whole, with counts, settings and times", async () => {
    const body = (await (
      await ask("/completion", { prompt: "Count", temperature: 0, cache_prompt: true })
    ).json()) as Json;
    expect(body).toMatchObject({
      content: "one two three",
      stop: true,
      stop_type: "eos",
      stopping_word: "",
      truncated: false,
      prompt: "Count",
      generation_settings: { temperature: 0, n_predict: -1 },
    });
    const timings = body.timings as Record<string, number>;
    expect(timings.predicted_n).toBe(body.tokens_predicted);
    expect(timings.prompt_ms).toBeGreaterThanOrEqual(0);
    expect(timings.predicted_per_second! * timings.predicted_ms!).toBeCloseTo(1000 * (timings.predicted_n! - 1));
  });

  it("comes as a stream of the same text, whose last event says why it stopped", async () => {
    const all = await events(await ask("/completion", { prompt: "Count", stream: true, stop: [" three"] }));
    expect(all.map(({ content }) => content).join("")).toBe("one two");
    expect(all.slice(0, -1).every(({ stop }) => stop === false)).toBe(true);
    expect(all.at(-1)).toMatchObject({ content: "", stop: true, stop_type: "word", stopping_word: " three" });
  });

  it("is cut at n_predict; several prompts have a list of answers", async () => {
    const cut = (await (
      await ask("/completion", { prompt: "Count", n_predict: 2, return_tokens: true })
    ).json()) as Json;
    expect(cut).toMatchObject({
      stop_type: "limit",
      tokens_predicted: 2,
      tokens: [expect.any(Number), expect.any(Number)],
    });
    const all = (await (await ask("/completion", { prompt: ["A", "B"] })).json()) as Json[];
    expect(all.map(({ index, content }) => [index, content])).toEqual([
      [0, "one two three"],
      [1, "one two three"],
    ]);
  });

  it("draws a seed for −1 and 2³² − 1, and says one that can be sent back", async () => {
    const seedFor = async (seed?: number): Promise<number> => {
      const body = (await (await ask("/completion", { prompt: "a", seed })).json()) as Json;
      return (body.generation_settings as { seed: number }).seed;
    };
    const drawn = [await seedFor(), await seedFor(-1), await seedFor(-1), await seedFor(2 ** 32 - 1)];
    expect(new Set(drawn).size).toBe(4);
    for (const seed of drawn) expect(seed).toBe(seed >>> 0);
    expect([await seedFor(drawn[1]), await seedFor(7), await seedFor(-5)]).toEqual([drawn[1], 7, -5]);
  });

  it("of no tokens has none; a stream tells its tokens and its line breaks", async () => {
    expect(await (await ask("/completion", { prompt: "a", n_predict: 0 })).json()).toMatchObject({
      content: "",
      tokens_predicted: 0,
      stop_type: "limit",
    });
    const all = await events(await ask("/completion", { prompt: "lines", stream: true }));
    expect(all.at(-1)).toMatchObject({ has_new_line: true });
    expect(all.flatMap(({ tokens }) => tokens).length).toBe(all.at(-1)!.tokens_predicted);
    expect(all[0]).not.toHaveProperty("timings");
    const timed = await events(await ask("/completion", { prompt: "lines", stream: true, timings_per_token: true }));
    expect(timed.map(({ timings }) => (timings as Json).predicted_n)).toEqual(
      timed.map(({ tokens_predicted }) => tokens_predicted),
    );
  });

  it("has the likeliest tokens of each place with their ids, whole and streamed", async () => {
    const request = { prompt: "Count", n_predict: 2, n_probs: 3 };
    const whole = (await (await ask("/completion", { ...request, return_tokens: true })).json()) as Json;
    const probabilities = whole.completion_probabilities as Json[];
    expect(probabilities.map(({ id }) => id)).toEqual(whole.tokens);
    for (const { logprob, bytes, top_logprobs } of probabilities) {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(bytes).toEqual(expect.any(Array));
      expect(top_logprobs).toHaveLength(3);
      expect((top_logprobs as Json[])[0]).toMatchObject({ id: expect.any(Number), token: expect.any(String) });
    }
    const all = await events(await ask("/completion", { ...request, stream: true }));
    expect(all.slice(0, -1).flatMap((event) => event.completion_probabilities)).toEqual(probabilities);
    expect(await (await ask("/completion", { prompt: "a", n_probs: 0 })).json()).not.toHaveProperty(
      "completion_probabilities",
    );
  });

  it("has only the fields that are wanted, those within others under their path", async () => {
    const response_fields = ["content", "timings/predicted_n", "timings/cache_n", "generation_settings/none"];
    const wanted = { content: "one two", "timings/predicted_n": 2, "timings/cache_n": 0 };
    const request = { prompt: "Count", n_predict: 2, response_fields };
    expect(Object.keys((await (await ask("/completion", request)).json()) as Json)).toEqual(Object.keys(wanted));
    const last = (await events(await ask("/completion", { ...request, stream: true }))).at(-1)!;
    expect(Object.keys(last)).toEqual(Object.keys(wanted));
  });

  it.each([
    [[["hi", -100]]],
    [{ hi: -100 }],
  ])("takes biases of texts, of each of their tokens: %j", async (logit_bias) => {
    expect((await ask("/completion", { prompt: "a", logit_bias })).status).toBe(200);
    const { tokens } = (await (await ask("/tokenize", { content: "hi" })).json()) as { tokens: number[] };
    const { logitBias } = fake!.engine.submitted.at(-1)!.sampling;
    expect(logitBias.toSorted(([a], [b]) => a - b)).toEqual(tokens.toSorted((a, b) => a - b).map((id) => [id, -100]));
  });

  it("takes an object of biases by id", async () => {
    expect((await ask("/completion", { prompt: "a", logit_bias: { "7": false, "8": 2 } })).status).toBe(200);
    expect(fake!.engine.submitted.at(-1)!.sampling.logitBias).toEqual([
      [7, -1e30],
      [8, 2],
    ]);
  });

  it.each([
    [{ prompt: "a", logit_bias: { hi: 101 } }, /logit_bias: expected up to/],
    [{ prompt: "a", n_probs: 21 }, /n_probs/],
    [{ prompt: "a", response_fields: [1] }, /response_fields/],
    [{ prompt: "a", mirostat: 2 }, /mirostat/],
    [{ prompt: "a", grammar: "root ::= [a]", json_schema: {} }, /grammar: expected nothing beside json_schema/],
    [{ prompt: "a", logit_bias: [[1, 500]] }, /logit_bias: expected up to/],
    [{}, /prompt/],
    [{ prompt: "a", colour: 1 }, /colour/],
  ])("refuses %j", async (body, message) => {
    const response = await ask("/completion", body);
    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: { message: string } }).error.message).toMatch(message);
  });
});

it("a schema that all prompts share is refused where its copies are too long together", async () => {
  const json_schema = { type: "string", description: "x".repeat(512 * 1024 - 200) };
  const all = async (numPrompts: number) =>
    ask("/completion", { prompt: new Array(numPrompts).fill("a"), json_schema, n_predict: 1 });
  expect((await all(16)).status).toBe(200);
  const response = await all(17);
  expect(response.status).toBe(400);
  expect(((await response.json()) as { error: { message: string } }).error.message).toMatch(
    /grammars of at most 8388608 characters over all prompts and choices, got 89\d{5};/,
  );
  expect(fake!.engine.submitted).toHaveLength(16);
});

describe("prompts", () => {
  const ids = [104, 105];
  const text = [BOS_ID, ...ids];

  it.each([
    [[104, "i"], [ids]],
    [{ prompt_string: "hi" }, [text]],
    [
      ["hi", ids],
      [text, ids],
    ],
    [
      [ids, { prompt_string: "hi" }, ["h", 105]],
      [ids, text, text],
    ],
  ])("mix texts and ids: %j", async (prompt, expected) => {
    expect((await ask("/completions", { prompt, n_predict: 1 })).status).toBe(200);
    const submitted = fake!.engine.submitted.map(({ promptIds }) => Array.from(promptIds));
    expect(submitted).toEqual(expected);
  });

  it.each([
    [[104, null]],
    [[104, 1.5, "a"]],
    [{ prompt_string: "hi", colour: 1 }],
    [new Array(1025).fill("a").concat(1)],
  ])("of other things are refused: %j", async (prompt) => {
    const response = await ask("/completion", { prompt });
    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: { param: string } }).error.param).toMatch(/^prompt/);
  });

  it("with images are refused as what is not served, without them they are taken", async () => {
    for (const [path, field] of [
      ["/completion", "prompt"],
      ["/embeddings", "content"],
    ] as const) {
      const refused = await ask(path, { [field]: [{ prompt_string: "a <__media__>", multimodal_data: ["aGk="] }] });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ error: { code: "unsupported_field", param: "multimodal_data" } });
      expect((await ask(path, { [field]: [{ prompt_string: "a", multimodal_data: [] }] })).status).toBe(200);
    }
  });
});

it("limits are taken under OpenAI's names, and settings of drafts and streams are ignored", async () => {
  const settings = { "speculative.n_max": 4, sse_ping_interval: 9, adaptive_target: -1 };
  const limited = { prompt: "Count", max_tokens: 2, ...settings };
  expect(await (await ask("/completion", limited)).json()).toMatchObject({ tokens_predicted: 2, truncated: false });
  const text = await (await ask("/completion", { ...limited, n_predict: 3 })).text();
  expect(text).toContain("max_tokens: expected the same as n_predict");
  expect((await ask("/completion", { prompt: "a", adaptive_target: 0.5 })).status).toBe(400);
});

it("an answer that fills the context is truncated", async () => {
  fake = await startAnswering(() => "x".repeat(9999), toolTemplate);
  const { maxModelLen } = fake.engine.info;
  const prompt = new Array<number>(maxModelLen - 3).fill(7);
  expect(await (await ask("/completion", { prompt })).json()).toMatchObject({ stop_type: "limit", truncated: true });
  const cut = await (await ask("/completion", { prompt, n_predict: 2 })).json();
  expect(cut).toMatchObject({ stop_type: "limit", truncated: false });
});

it("/embedding and /embeddings give each vector within a list, from content or input", async () => {
  for (const [path, body] of [
    ["/embedding", { content: "hi" }],
    ["/embeddings", { input: ["hi"], embd_normalize: 2 }],
  ] as const) {
    const [first] = (await (await ask(path, body)).json()) as { index: number; embedding: number[][] }[];
    expect(first!.index).toBe(0);
    expect(first!.embedding).toHaveLength(1);
    expect(Math.hypot(...first!.embedding[0]!)).toBeCloseTo(1);
  }
  expect((await ask("/embedding", {})).status).toBe(400);
  expect((await ask("/embedding", { content: "hi", embd_normalize: -1 })).status).toBe(400);
});

it.each([
  ["/v1/completions", { prompt: "a" }],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
  ["/v1/responses", { input: "a", store: false }],
])("%s takes the settings of llama-server's clients", async (path, body) => {
  const settings = { cache_prompt: true, id_slot: 0, return_progress: true, timings_per_token: true };
  expect((await ask(path, { ...body, ...settings })).status).toBe(200);
});

it("paths without /v1 are those of /v1; there are no adapters", async () => {
  const input_tokens = async (path: string) => await (await ask(path, { input: "hi" })).json();
  expect(await input_tokens("/responses/input_tokens")).toEqual(await input_tokens("/v1/responses/input_tokens"));
  expect(await (await ask("/responses", { input: "hi", store: false })).json()).toMatchObject({ object: "response" });
  expect(await (await ask("/lora-adapters")).json()).toEqual([]);
});

it("/infill is refused for a model without tokens for it", async () => {
  const response = await ask("/infill", { input_prefix: "def f(", input_suffix: "): pass" });
  expect(response.status).toBe(400);
  expect(((await response.json()) as { error: { code: string } }).error.code).toBe("unsupported_field");
});

it("/props, /slots, /apply-template, /tokenize and /detokenize have llama-server's fields", async () => {
  const props = (await (await ask("/props")).json()) as Json;
  expect(props).toMatchObject({
    total_slots: expect.any(Number),
    chat_template: toolTemplate.source,
    modalities: { vision: false },
  });
  const slots = (await (await ask("/slots")).json()) as Json[];
  expect(slots).toHaveLength(props.total_slots as number);
  expect(slots.every(({ is_processing }) => is_processing === false)).toBe(true);
  const { prompt } = (await (
    await ask("/apply-template", { messages: [{ role: "user", content: "hi" }] })
  ).json()) as Json;
  expect(prompt).toContain("hi");
  const { tokens } = (await (await ask("/tokenize", { content: "hi there" })).json()) as { tokens: number[] };
  const { content } = (await (await ask("/detokenize", { tokens })).json()) as Json;
  expect(content).toBe("hi there");
});

it("/tokenize takes special tokens for plain text where parse_special is false", async () => {
  const count = async (parse_special?: boolean) =>
    ((await (await ask("/tokenize", { content: "<|im_end|>", parse_special })).json()) as Json).count;
  expect([await count(), await count(true), await count(false)]).toEqual([1, 1, 10]);
});

it("/tokenize gives each token with its piece, and its bytes where these are no text", async () => {
  const pieces = (await (await ask("/tokenize", { content: "h\u00e9", with_pieces: true })).json()) as Json;
  const { tokens } = (await (await ask("/tokenize", { content: "h\u00e9" })).json()) as { tokens: number[] };
  expect(pieces.tokens).toEqual([
    { id: tokens[0], piece: "h" },
    { id: tokens[1], piece: [0xc3] },
    { id: tokens[2], piece: [0xa9] },
  ]);
  const both = await ask("/tokenize", { content: "a", with_pieces: true, return_token_strs: true });
  expect(both.status).toBe(400);
});

it("an address without /v1 has chats and the list of models", async () => {
  const messages = [{ role: "user", content: "Count" }];
  const chat = (await (await ask("/chat/completions", { messages })).json()) as Json;
  expect(chat).toMatchObject({ object: "chat.completion", choices: [{ message: { role: "assistant" } }] });
  expect(await (await ask("/models")).json()).toEqual(await (await ask("/v1/models")).json());
});

describe("chats take llama-server's fields", () => {
  const messages = [{ role: "user", content: "Count" }];
  const chat = async (fields: object): Promise<Json> =>
    (await (await ask("/v1/chat/completions", { messages, ...fields })).json()) as Json;
  const form = async (fields: object): Promise<unknown> => {
    expect((await chat(fields)).object).toBe("chat.completion");
    return JSON.parse(fake!.engine.submitted.at(-1)!.constraint?.recipe ?? "null");
  };

  it("a grammar or a schema at the top, and a schema without a name, are forms of the answer", async () => {
    const schema = { type: "string", maxLength: 3 };
    const wanted = await form({ response_format: { type: "json_schema", json_schema: { name: "n", schema } } });
    expect(wanted).not.toBeNull();
    for (const fields of [
      { json_schema: schema },
      { response_format: { type: "json_object", schema } },
      { response_format: { type: "json_schema", json_schema: { schema } } },
    ])
      expect(await form(fields)).toMatchObject({ kind: "schema", schema });
    expect(await form({ grammar: "root ::= [a-z]+" })).toMatchObject({ kind: "grammar", text: "root ::= [a-z]+" });
    expect(
      await form({ grammar: "", cache_prompt: true, id_slot: 0, return_progress: true, top_n_sigma: -1 }),
    ).toBeNull();
  });

  it.each([
    [{ grammar: "root ::= [a]", json_schema: {} }, /grammar: expected nothing beside json_schema, got both/],
    [
      { json_schema: {}, response_format: { type: "json_object" } },
      /json_schema: expected nothing beside response_format, got both/,
    ],
    [{ json_schema: [] }, /json_schema: expected a JSON schema/],
    [{ mirostat: 2 }, /mirostat/],
    [{ timings_per_token: 1 }, /timings_per_token/],
  ])("refuses %j", async (fields, message) => {
    expect((await chat(fields)).error).toMatchObject({ message: expect.stringMatching(message) });
  });

  it("timings stand in the answer and in each chunk, where they are asked for", async () => {
    const whole = await chat({ timings_per_token: true, max_tokens: 3 });
    expect(whole.timings).toMatchObject({ predicted_n: 3, cache_n: 0, predicted_ms: expect.any(Number) });
    expect((whole.timings as Json).prompt_n).toBe((whole.usage as Json).prompt_tokens);
    expect(await chat({ max_tokens: 3 })).not.toHaveProperty("timings");
    const response = await ask("/v1/chat/completions", {
      messages,
      timings_per_token: true,
      stream: true,
      max_tokens: 3,
    });
    const chunks = (await response.text())
      .split("\n\n")
      .filter((each) => each.startsWith("data: {"))
      .map((each) => JSON.parse(each.slice(6)) as Json);
    const counts = chunks.map(({ timings }) => (timings as Json).predicted_n as number);
    expect(counts.at(-1)).toBe(3);
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
  });

  it("the tokens of a chat's prompt are counted without an answer", async () => {
    const { input_tokens } = (await (await ask("/chat/completions/input_tokens", { messages })).json()) as Json;
    expect(input_tokens).toBe(((await chat({ max_tokens: 1 })).usage as Json).prompt_tokens);
    expect((await ask("/v1/chat/completions/input_tokens", { messages: 7 })).status).toBe(400);
  });
});
