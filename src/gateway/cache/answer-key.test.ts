import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KNOWN_PATHS, routeOf } from "../api/routes.js";
import {
  answerKey,
  CACHEABLE_PATHS,
  type CacheScope,
  canonicalBody,
  credentialsOf,
  type KeyParts,
  tenantScope,
} from "./answer-key.js";
import { canonicalJson } from "./canonical-json.js";

const CHAT = "/v1/chat/completions";
const scope: CacheScope = { kind: "tenant", name: "t", credentials: "" };
const parts: KeyParts = { scope, model: "m", version: "v", headers: [] };

function keyOf(
  body: Readonly<Record<string, unknown>>,
  {
    path = CHAT,
    url = path,
    headers = {},
    bytes = Buffer.from(JSON.stringify(body)),
    ...more
  }: Partial<Omit<KeyParts, "headers">> & {
    path?: string;
    url?: string;
    headers?: Record<string, string>;
    bytes?: Buffer;
    further?: readonly string[];
  } = {},
) {
  const { further = [], ...own } = more;
  const canonical = canonicalBody({ path, body, bytes });
  return canonical === undefined
    ? undefined
    : answerKey({ url, headers }, canonical, { ...parts, ...own, headers: further });
}

const id = (...of: Parameters<typeof keyOf>) => keyOf(...of)!.id;

/** Every field of docs/reference/http-api.md that changes an answer's text or bytes, with two different values. */
const ANSWER_FIELDS: Readonly<Record<string, readonly [unknown, unknown]>> = {
  model: ["a", "b"],
  messages: [[{ role: "user", content: "a" }], [{ role: "user", content: "a " }]],
  prompt: [
    [1, 2],
    [1, 23],
  ],
  input: ["x", ["x"]],
  system: ["a", "b"],
  max_tokens: [1, 2],
  max_completion_tokens: [1, 2],
  max_output_tokens: [1, 2],
  n: [1, 2],
  stream: [false, true],
  stream_options: [{ include_usage: true }, { include_usage: false }],
  temperature: [0, 0.0000001],
  top_p: [1, 0.9],
  top_k: [0, 1],
  min_p: [0, 0.1],
  presence_penalty: [0, 1],
  frequency_penalty: [0, 1],
  repetition_penalty: [1, 1.1],
  repeat_last_n: [64, 0],
  dry_multiplier: [0, 0.8],
  dry_base: [1.75, 2],
  dry_allowed_length: [2, 3],
  dry_penalty_last_n: [-1, 64],
  dry_sequence_breakers: [[], ["a"]],
  top_n_sigma: [-1, 1],
  typical_p: [1, 0.9],
  xtc_probability: [0, 1],
  xtc_threshold: [0.1, 0.2],
  dynatemp_range: [0, 1],
  dynatemp_exponent: [1, 2],
  seed: [1, 2],
  stop: ["a", ["a"]],
  stop_sequences: [["a"], ["a", "b"]],
  stop_token_ids: [[1], [2]],
  include_stop_str_in_output: [true, false],
  ignore_eos: [true, false],
  min_tokens: [0, 1],
  logit_bias: [{ "1": 1 }, { "1": 2 }],
  logprobs: [true, false],
  top_logprobs: [1, 2],
  prompt_logprobs: [1, 2],
  suffix: ["a", "b"],
  echo: [true, false],
  return_tokens_as_token_ids: [true, false],
  add_special_tokens: [true, false],
  skip_special_tokens: [true, false],
  tools: [[], [{ type: "function", function: { name: "f" } }]],
  tool_choice: ["auto", "required"],
  parallel_tool_calls: [true, false],
  reasoning_effort: ["low", "high"],
  reasoning: [{ effort: "low" }, { effort: "high" }],
  thinking: [{ type: "enabled" }, { type: "disabled" }],
  output_config: [{ effort: "low" }, { effort: "high" }],
  output_format: [{}, { type: "json_schema" }],
  chat_template_kwargs: [{ a: 1 }, { a: 2 }],
  add_generation_prompt: [true, false],
  continue_final_message: [true, false],
  response_format: [{ type: "text" }, { type: "json_object" }],
  structured_outputs: [{ choice: ["a"] }, { choice: ["b"] }],
  text: [{ format: { type: "text" } }, { format: { type: "json_object" } }],
  allowed_token_ids: [[1], [2]],
  bad_words: [["a"], ["b"]],
  truncate_prompt_tokens: [1, 2],
  return_token_ids: [true, false],
  include_reasoning: [true, false],
  include: [[], ["message.output_text.logprobs"]],
  truncation: ["auto", "disabled"],
  instructions: ["a", "b"],
  context_management: [{ edits: [] }, { edits: [{}] }],
  encoding_format: ["float", "base64"],
  dimensions: [1, 2],
  prompt_name: ["query", "passage"],
  query: ["a", "b"],
  documents: [["a"], ["b"]],
  top_n: [0, 1],
  return_documents: [true, false],
  text_1: ["a", "b"],
  text_2: ["a", "b"],
  instruction: ["a", "b"],
  cache_salt: ["a", "b"],
  service_tier: ["auto", "default"],
  store: [true, false],
  a_field_of_tomorrow: [1, 2],
};

const json = fc.jsonValue({ maxDepth: 3, noUnicodeString: false });
const body = fc.dictionary(fc.oneof(fc.constantFrom(...Object.keys(ANSWER_FIELDS)), fc.string()), json, { maxKeys: 8 });

describe("an answer's key", () => {
  test.each(CACHEABLE_PATHS)("of %s changes with every field that changes an answer", (path) => {
    fc.assert(
      fc.property(body, fc.constantFrom(...Object.entries(ANSWER_FIELDS)), (fields, [name, [one, other]]) => {
        const rest = JSON.parse(JSON.stringify(fields)) as Record<string, unknown>;
        const first = keyOf({ ...rest, [name]: one }, { path });
        const second = keyOf({ ...rest, [name]: other }, { path });
        const { [name]: _, ...without } = rest;
        const third = keyOf(without, { path });
        if (first === undefined || second === undefined || third === undefined) return;
        expect(new Set([first.id, second.id, third.id]).size).toBe(3);
      }),
    );
  });

  test.each(CACHEABLE_PATHS)("of %s is the same however the request is written, and only then", (path) => {
    const different = (a: unknown, b: unknown) => canonicalJson(a, true).text !== canonicalJson(b, true).text;
    fc.assert(
      fc.property(body, body, (a, b) => {
        const [one, other] = [a, b].map((each) => JSON.parse(JSON.stringify(each)) as Record<string, unknown>);
        const shuffled = Object.fromEntries(Object.entries(one!).reverse());
        const spaced = Buffer.from(JSON.stringify(shuffled, null, 2));
        expect(keyOf(shuffled, { path, bytes: spaced })?.id).toBe(keyOf(one!, { path })?.id);
        const ignored = ["priority", "timeout", "user", "metadata", "safety_identifier"];
        if (ignored.some((name) => name in one! || name in other!)) return;
        if (different(one, other) && keyOf(one!, { path }) !== undefined) {
          expect(keyOf(one!, { path })?.id).not.toBe(keyOf(other!, { path })?.id);
        }
      }),
    );
  });

  test("follows how numbers within fields are written, since templates write them so, and not those of the request itself", () => {
    const idOf = (text: string) => keyOf(JSON.parse(text) as Record<string, unknown>, { bytes: Buffer.from(text) })!.id;
    const tool = (...numbers: string[]) => `{"tools":[{"enum":[${numbers.join()}]}],"text":"1.0"}`;
    const texts = [
      ["1", "1"],
      ["1.0", "1"],
      ["1", "1.0"],
      ["1.00", "1"],
      ["1e0", "1"],
      ["10e-1", "1.0"],
    ];
    expect(new Set(texts.map((numbers) => idOf(tool(...numbers)))).size).toBe(texts.length);
    expect(idOf('{"a":[1.0],"b":[1]}')).not.toBe(idOf('{"b":[1.0],"a":[1]}'));
    expect(idOf('{"a":[1.0],"b":[1]}')).not.toBe(idOf('{"a":[1],"b":[1.0]}'));
    expect(idOf(tool("-0.5", "1.5"))).toBe(idOf(` ${tool(" -0.5", "1.5 ")}`));
    expect(idOf('{"temperature":1.0,"messages":["1.0"]}')).toBe(idOf('{"temperature":1,"messages":["1.0"]}'));
  });

  test.each(["tools", "response_format", "chat_template_kwargs"])("follows the order of members within %s", (name) => {
    const fields = (...names: string[]) => ({
      [name]: [{ properties: Object.fromEntries(names.map((n) => [n, {}])) }],
    });
    expect(id(fields("a", "b"))).not.toBe(id(fields("b", "a")));
  });

  test("tenants, namespaces, credentials, models, versions, queries and headers never share", () => {
    const text = fc.string({ maxLength: 4 });
    const place = fc.record({
      kind: fc.constantFrom("tenant" as const, "shared" as const),
      name: text,
      credentials: text,
      model: text,
      version: text,
      query: text,
      beta: fc.option(text, { nil: undefined }),
      own: fc.option(text, { nil: undefined }),
    });
    type Place = typeof place extends fc.Arbitrary<infer T> ? T : never;
    const keyAt = ({ kind, name, credentials, model, version, query, beta, own }: Place) =>
      id(
        { messages: [] },
        {
          scope: { kind, name, credentials },
          model,
          version,
          url: `${CHAT}?${query}`,
          headers: {
            ...(beta === undefined ? {} : { "anthropic-beta": beta }),
            ...(own === undefined ? {} : { "x-own": own }),
          },
          further: ["x-own"],
        },
      );
    fc.assert(
      fc.property(place, place, (a, b) => {
        expect(keyAt(a) === keyAt(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
    fc.assert(
      fc.property(
        place,
        fc.constantFrom("kind", "name", "credentials", "model", "version", "query", "beta", "own"),
        (a, field) => {
          const changed = field === "kind" ? (a.kind === "tenant" ? "shared" : "tenant") : `${a[field] ?? ""}x`;
          expect(keyAt({ ...a, [field]: changed })).not.toBe(keyAt(a));
        },
      ),
    );
  });

  test("urgency and bookkeeping do not change it, but requests under way share only with the same urgency", () => {
    const one = keyOf({ messages: [], priority: 1, timeout: 2, user: "a", metadata: { a: "1" } })!;
    const other = keyOf({ messages: [], user: "b" })!;
    expect(other.id).toBe(one.id);
    expect(other.flight).not.toBe(one.flight);
    expect(keyOf({ messages: [], user: "c" })!.flight).toBe(other.flight);
    for (const name of ["x-millrace-priority", "x-millrace-timeout"]) {
      const urgent = keyOf({ messages: [] }, { headers: { [name]: "5" } })!;
      expect([urgent.id === other.id, urgent.flight === other.flight]).toEqual([true, false]);
    }
    // Responses repeat their metadata.
    const path = "/v1/responses";
    expect(id({ input: "a", metadata: { a: "1" } }, { path })).not.toBe(id({ input: "a" }, { path }));
  });

  test("there is none where the bytes say more than the fields", () => {
    const read = (text: string) => keyOf(JSON.parse(text) as Record<string, unknown>, { bytes: Buffer.from(text) });
    expect(read('{"messages":[], "seed": 9007199254740991}')).toBeDefined();
    expect(read('{"messages":[], "seed": 9007199254740993}')).toBeUndefined();
    expect(read('{"messages":[], "seed": 1e999}')).toBeUndefined();
    expect(read('{"messages":[], "seed": 1, "seed": 2}')).toBeUndefined();
    expect(read('{"messages":[{"role":"user","role":"system"}]}')).toBeUndefined();
    expect(read('{"messages":[{"content":"a, b: {[ \\" , "}, [], {}]}')).toBeDefined();
    expect(read('{"__proto__":{"a":1},"messages":[]}')!.id).not.toBe(read('{"messages":[]}')!.id);
  });

  test("has the name that the upstream gets, whatever the client called it", () => {
    const bodyOf = (asked: string, model?: string) => {
      const body = { model: asked, messages: [], seed: 1 };
      const bytes = Buffer.from(JSON.stringify(body));
      return canonicalBody({ path: CHAT, body, bytes, ...(model === undefined ? {} : { model }) });
    };
    expect(bodyOf("chat", "m")).toEqual(bodyOf("m"));
    expect(bodyOf("chat", "m")).not.toEqual(bodyOf("chat", "n"));
    expect(canonicalBody({ path: CHAT, body: {}, bytes: Buffer.from("{}"), model: "m" })).toEqual({
      kept: "",
      terms: "",
    });
  });

  test("long lists of ids are the same as arrays", () => {
    const ids = [1, 2, 300];
    const path = "/v1/completions";
    const bytes = Buffer.from(JSON.stringify({ prompt: ids }));
    expect(keyOf({ prompt: Int32Array.from(ids) }, { path, bytes })?.id).toBe(id({ prompt: ids }, { path }));
  });

  test("other paths have none", () => {
    const others = KNOWN_PATHS.filter((path) => !CACHEABLE_PATHS.includes(path));
    for (const path of others) expect(keyOf({}, { path })).toBeUndefined();
    for (const path of CACHEABLE_PATHS) expect(routeOf(path)?.runsPrompt).toBe(true);
  });

  test("credentials are part of a tenant's scope where the upstream checks them", () => {
    const request = { caller: { tenant: "a" }, headers: { authorization: "Bearer k" } };
    expect(tenantScope(request, true)).toEqual({ kind: "tenant", name: "a", credentials: "" });
    expect(tenantScope(request, false).credentials).toBe(credentialsOf(request.headers));
  });

  test("credentials are hashed, each header for itself", () => {
    expect(credentialsOf({})).toBe("");
    const all = [{ authorization: "k" }, { "x-api-key": "k" }, { authorization: "k", "x-api-key": "k" }].map(
      credentialsOf,
      tenantScope,
    );
    expect(new Set(all).size).toBe(3);
    expect(all[0]).not.toContain("k");
  });
});
