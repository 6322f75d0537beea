/**
 * Random and mutated bodies on every endpoint: each answer is 200 or a coded 4xx, and nothing stays alive in the
 * engine.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toolTemplate } from "../../test/helpers/chat-templates.js";
import { fakeAppOptions, startFakeServer } from "../../test/helpers/fake-server.js";
import { fakeTokenizer } from "../../test/helpers/fake-tokenizer.js";
import { ERROR_CODES } from "../core/errors.js";
import type { EngineInfo } from "../engine/api/stats.js";
import { createApp } from "./app.js";

const PATHS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/embeddings",
  "/v2/embed",
  "/rerank",
  "/v2/rerank",
  "/v1/score",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/tokenize",
  "/detokenize",
  "/completion",
  "/infill",
  "/apply-template",
] as const;

/** Ollama's paths, which stream by default and so need a socket. */
const STREAMING_PATHS = ["/api/chat", "/api/generate", "/api/embed", "/api/show"] as const;

type Path = (typeof PATHS)[number] | (typeof STREAMING_PATHS)[number];

const CONVERSATION = {
  model: "fake",
  system: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }],
  messages: [
    { role: "user", content: "hi" },
    {
      role: "assistant",
      content: [
        { type: "text", text: "a" },
        { type: "tool_use", id: "t", name: "n", input: { a: [1] } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "r" }] },
        { type: "text", text: "b" },
      ],
    },
    { role: "assistant", content: "c" },
  ],
  thinking: { type: "adaptive", display: "omitted" },
  tools: [{ name: "n", description: "d", input_schema: { type: "object" }, cache_control: { type: "ephemeral" } }],
  tool_choice: { type: "any", disable_parallel_tool_use: true },
};

/** Valid bodies whose parts get replaced. Streaming is left out: it needs a socket. */
const SEEDS: Readonly<Record<Path, Readonly<Record<string, unknown>>>> = {
  "/v1/chat/completions": {
    model: "fake",
    messages: [
      { role: "system", content: "s" },
      { role: "user", content: [{ type: "text", text: "hi" }] },
      { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "a", content: "1" },
    ],
    max_tokens: 3,
    n: 2,
    logprobs: true,
    top_logprobs: 2,
    stop: ["x", "yy"],
    logit_bias: { 5: 1 },
    seed: 1,
    temperature: 0.5,
    top_p: 0.5,
    top_k: 3,
    min_tokens: 1,
    stop_token_ids: [1],
    chat_template_kwargs: { a: { b: [1] } },
    tools: [{ type: "function", function: { name: "f", parameters: {} } }],
    tool_choice: "required",
    parallel_tool_calls: false,
    reasoning_effort: "low",
    response_format: { type: "text" },
    prompt_logprobs: 1,
  },
  "/v1/completions": {
    model: "fake",
    prompt: ["ab", "c"],
    max_tokens: 3,
    n: 2,
    echo: true,
    logprobs: 2,
    stop: "q",
    prompt_logprobs: 2,
    return_tokens_as_token_ids: true,
    add_special_tokens: false,
    skip_special_tokens: false,
    cache_salt: "s",
  },
  "/v1/responses": {
    model: "fake",
    input: [
      { role: "user", content: [{ type: "input_text", text: "hey" }] },
      { type: "reasoning", id: "r", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
      { type: "function_call", id: "f", call_id: "c", name: "n", arguments: "{}", status: "completed" },
      { type: "function_call_output", call_id: "c", output: "o" },
    ],
    instructions: "be brief",
    max_output_tokens: 3,
    text: { format: { type: "text" } },
    tools: [{ type: "function", name: "n", description: "d", parameters: {}, strict: false }],
    tool_choice: "required",
    temperature: 0.5,
    metadata: {},
    store: false,
    user: "u",
    parallel_tool_calls: false,
    reasoning: { effort: "low" },
    priority: 0,
  },
  "/v1/embeddings": {
    model: "fake",
    input: ["ab", "c"],
    encoding_format: "base64",
    embed_dtype: "float16",
    endianness: "big",
    dimensions: 4,
    user: "u",
    add_special_tokens: true,
    cache_salt: "s",
  },
  "/v2/embed": {
    model: "fake",
    texts: ["ab", "c"],
    input_type: "search_query",
    embedding_types: ["float", "int8", "base64"],
    output_dimension: 4,
    max_tokens: 1,
    truncate: "START",
    cache_salt: "s",
  },
  "/rerank": {
    query: "q",
    texts: ["ab", "c", "ab"],
    return_text: true,
    top_n: 2,
    max_tokens_per_doc: 1,
    truncate_prompt_tokens: -1,
  },
  "/v2/rerank": {
    model: "fake",
    query: "q",
    documents: ["ab", { text: "c" }, "ab"],
    top_n: 2,
    return_documents: true,
    instruction: "i",
    truncate_prompt_tokens: 500,
    cache_salt: "s",
  },
  "/v1/score": {
    model: "fake",
    text_1: ["q", "r"],
    text_2: ["ab", "c"],
    encoding_format: "float",
    instruction: "i",
    truncate_prompt_tokens: -1,
    user: "u",
    priority: 0,
  },
  "/v1/messages": {
    ...CONVERSATION,
    max_tokens: 3,
    stop_sequences: ["x", "yy"],
    temperature: 0.5,
    top_p: 0.5,
    top_k: 3,
    metadata: { user_id: "u" },
  },
  "/v1/messages/count_tokens": {
    ...CONVERSATION,
    cache_control: { type: "ephemeral" },
    speed: "standard",
    user_profile_id: "u",
  },
  "/tokenize": { messages: [{ role: "user", content: "a" }], add_generation_prompt: true, return_token_strs: true },
  "/detokenize": { model: "fake", tokens: [1, 2, 3] },
  "/completion": {
    prompt: ["a", "b"],
    n_predict: 3,
    temperature: 0.5,
    stop: ["x"],
    logit_bias: [[5, 1]],
    json_schema: { type: "object" },
    cache_prompt: true,
    mirostat: 0,
    dry_multiplier: 0.8,
    dry_sequence_breakers: ["\n"],
    typical_p: 0.9,
    xtc_probability: 0.5,
    return_tokens: true,
  },
  "/infill": { input_prefix: "a", input_suffix: "b", prompt: "c", n_predict: 3, input_extra: [] },
  "/apply-template": { messages: [{ role: "user", content: "a" }], add_generation_prompt: true },
  "/api/chat": {
    model: "fake",
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: "", tool_calls: [{ function: { name: "f", arguments: { a: 1 } } }] },
      { role: "tool", content: "1", tool_name: "f" },
    ],
    tools: [{ type: "function", function: { name: "f", parameters: {} } }],
    options: { num_predict: 3, temperature: 0.5, stop: ["x"], seed: 1, num_ctx: 100, mirostat: 0 },
    format: "",
    think: false,
    keep_alive: "5m",
    stream: true,
  },
  "/api/generate": { prompt: "hi", system: "s", raw: false, options: { num_predict: 3 }, stream: false },
  "/api/embed": { input: ["a", "b"], truncate: true, dimensions: 2 },
  "/api/show": { model: "fake:latest", verbose: true },
};

/** Tasks of the model behind an endpoint; absent: it generates text and embeds texts. */
const TASKS: Partial<Record<Path, EngineInfo["tasks"]>> = {
  "/v2/rerank": ["generate", "rerank"],
  "/v1/score": ["generate", "rerank"],
};

const strangeValue = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  fc.constantFrom<unknown>(
    null,
    -1,
    0,
    1.5,
    1e308,
    -1e308,
    2 ** 53,
    2 ** 31,
    2 ** 63,
    -0,
    "",
    "\u0000",
    "\ud800",
    "__proto__",
    "a".repeat(5000),
    [],
    {},
    [[]],
    [[], []],
    [null],
    [""],
    true,
  ),
  fc.integer({ min: 1, max: 3000 }).map((depth) => nest(depth)),
);

function nest(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { a: value };
  return value;
}

/** Replaces, adds or removes one value somewhere in the tree. */
function mutate(value: unknown, path: readonly number[], replacement: unknown): unknown {
  if (path.length === 0 || typeof value !== "object" || value === null) return replacement;
  const [step, ...rest] = path as [number, ...number[]];
  const entries: [string, unknown][] = Object.entries(value);
  if (entries.length === 0) return replacement;
  const place = step % (entries.length + 1);
  if (place === entries.length) entries.push([`extra${step}`, replacement]);
  else entries[place] = [entries[place]![0], mutate(entries[place]![1], rest, replacement)];
  return Array.isArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries);
}

const mutation = fc.tuple(fc.array(fc.nat(30), { minLength: 1, maxLength: 4 }), strangeValue);

/** Values that are often valid, so that accepted requests are covered too. */
const plainValue = fc.constantFrom<unknown>(
  null,
  0,
  1,
  2,
  0.5,
  true,
  false,
  "a",
  "abc",
  [1],
  ["a"],
  [{ type: "text", text: "b" }],
);
const gentleMutation = fc.tuple(fc.array(fc.nat(30), { minLength: 1, maxLength: 4 }), plainValue);

const body = (path: Path): fc.Arbitrary<string> =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc
        .oneof(fc.tuple(gentleMutation), fc.array(mutation, { minLength: 1, maxLength: 3 }))
        .map((mutations) => {
          const mutated = mutations.reduce<unknown>(
            (value, [at, replacement]) => mutate(value, at, replacement),
            SEEDS[path],
          );
          return JSON.stringify(mutated) ?? "";
        }),
    },
    { weight: 1, arbitrary: fc.json() },
    { weight: 1, arbitrary: fc.string({ unit: "binary" }) },
    { weight: 1, arbitrary: fc.nat(400).map((length) => JSON.stringify(SEEDS[path]).slice(0, length)) },
  );

describe("random bodies", () => {
  it.each(PATHS)("%s never answers 500", async (path) => {
    const { engine, options, lines } = fakeAppOptions(
      { maxModelLen: 600, maxWaitingRequests: 300, info: { tasks: TASKS[path] ?? ["generate", "embed"] } },
      {
        chatTemplate: toolTemplate,
        tokenizer: { ...fakeTokenizer, infill: { prefix: 256, suffix: 257, middle: 258 } },
      },
    );
    const app = createApp(options);
    let numAccepted = 0;
    await fc.assert(
      fc.asyncProperty(body(path), async (text) => {
        lines.length = 0;
        const response = await app.request(path, { method: "POST", body: text });
        const answer = (await response.json()) as {
          error?: { code?: string; details?: { error_code: string }; message: string };
        };
        if (response.status === 200) {
          numAccepted++;
          expect(lines).toEqual([]);
        } else {
          expect(response.status).toBeGreaterThanOrEqual(400);
          expect(response.status).toBeLessThan(500);
          expect(ERROR_CODES).toContain(answer.error?.code ?? answer.error?.details?.error_code);
          expect(answer.error?.message.length).toBeLessThan(600);
          expect(lines.filter(({ level }) => level !== "debug")).toHaveLength(1);
        }
        expect(engine.numLive).toBe(0);
      }),
      { numRuns: 300, seed: 20261121 },
    );
    expect(numAccepted).toBeGreaterThan(20);
  });

  it.each(STREAMING_PATHS)("%s never answers 500, nor ends a stream without a last line", async (path) => {
    const info = { tasks: ["generate", "embed"] } as const;
    const { server, engine } = await startFakeServer({ maxModelLen: 600, info }, { chatTemplate: toolTemplate });
    let numAccepted = 0;
    await fc.assert(
      fc.asyncProperty(body(path), async (text) => {
        const response = await fetch(server.url + path, { method: "POST", body: text });
        const lines = (await response.text()).trim().split("\n");
        const last = JSON.parse(lines.at(-1)!) as { error?: string; code?: string; done?: boolean };
        if (response.status === 200) {
          numAccepted++;
          expect(last.error).toBeUndefined();
          if (path === "/api/chat" || path === "/api/generate") expect(last.done).toBe(true);
        } else {
          expect(response.status).toBeGreaterThanOrEqual(400);
          expect(response.status).toBeLessThan(500);
          expect(ERROR_CODES).toContain(last.code);
          expect(last.error!.length).toBeLessThan(600);
        }
        expect(engine.numLive).toBe(0);
      }),
      { numRuns: 400, seed: 20261126 },
    );
    await server.close();
    expect(numAccepted).toBeGreaterThan(20);
  });

  it("survives nesting that would overflow a recursive reader", async () => {
    const { options } = fakeAppOptions();
    const app = createApp(options);
    for (const field of ["messages", "chat_template_kwargs", "prompt", "stop", "metadata", "tools", "extra"]) {
      for (const path of [...PATHS, ...STREAMING_PATHS]) {
        const deep = `{"${field}":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
        const response = await app.request(path, { method: "POST", body: deep });
        expect(response.status).toBe(400);
      }
    }
  });
});
