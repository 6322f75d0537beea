import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { routeOf } from "../../gateway/api/routes.js";
import type { RequestBody } from "../../gateway/request.js";
import { TextKeySource } from "../routing/key-source.js";
import { DEFAULT_ROUTING } from "../routing/router.js";
import { modelOf, priorityOf, routedRequest } from "./request-terms.js";

const keySource = new TextKeySource();

function termsOf(body: RequestBody, path = "/v1/chat/completions", headers: Record<string, string> = {}) {
  const bytes = Buffer.from(JSON.stringify(body));
  const terms = {
    route: routeOf(path)!,
    path,
    bytes,
    body,
    headers,
    keySource,
    defaultOutputTokens: 256,
    cacheScope: "",
    owner: { tenant: "" },
  };
  return routedRequest("m", terms, { ...DEFAULT_ROUTING, policy: "session" });
}

test("the expected output is the requested number of tokens, within bounds", async () => {
  expect((await termsOf({ messages: [] })).outputTokens).toBe(256);
  expect((await termsOf({ max_tokens: 20 })).outputTokens).toBe(20);
  expect((await termsOf({ max_tokens: 20, max_completion_tokens: 30 })).outputTokens).toBe(30);
  expect((await termsOf({ max_output_tokens: 1e9 }, "/v1/responses")).outputTokens).toBe(4096);
  expect((await termsOf({ input: "x" }, "/v1/embeddings")).outputTokens).toBe(0);
});

test("choices times prompts", async () => {
  const completions = async (body: RequestBody) => (await termsOf(body, "/v1/completions")).numSequences;
  expect(await completions({ prompt: "a" })).toBe(1);
  expect(await completions({ prompt: ["a", "b"], n: 3 })).toBe(6);
  expect(await completions({ prompt: [1, 2, 3] })).toBe(1);
  expect(await completions({ prompt: [[1], [2]] })).toBe(2);
});

test("a request counts for at most 1,024 choices per prompt", async () => {
  for (const [n, numSequences] of [
    [1023, 1023],
    [1024, 1024],
    [5000, 1024],
  ] as const) {
    expect((await termsOf({ messages: [], n })).numSequences).toBe(numSequences);
  }
});

describe("sessions", () => {
  test.each<[string, RequestBody, Record<string, string>]>([
    ["header", { user: "user" }, { "x-session-id": "header" }],
    ["conversation", { conversation: { id: "conversation" }, user: "user" }, {}],
    ["conversation", { conversation: "conversation" }, {}],
    ["key", { prompt_cache_key: "key", user: "user" }, {}],
    ["user", { user: "user", metadata: { user_id: "other" } }, {}],
    ["metadata", { metadata: { user_id: "metadata" } }, {}],
  ])("%s", async (expected, body, headers) => {
    expect((await termsOf(body, undefined, headers)).session).toBe(expected);
  });

  test("none", async () => {
    expect((await termsOf({ user: 5, metadata: null })).session).toBeUndefined();
  });
});

test("a request selects a model by its name, or the only model", () => {
  expect(modelOf({ model: "b" }, ["a", "b"])).toBe("b");
  expect(modelOf({ model: "b:latest" }, ["a"], undefined, ["b"])).toBe("b");
  expect(modelOf({}, ["a"])).toBe("a");
  for (const body of [{ model: "c" }, { model: null }, {}]) {
    expect(() => modelOf(body, ["a", "b"])).toThrow(
      expect.objectContaining({ code: "model_not_found", param: "model" }),
    );
  }
});

test("for any body, the terms are numbers that routing can use", async () => {
  const field = fc.constantFrom(
    "messages",
    "prompt",
    "n",
    "max_tokens",
    "tools",
    "system",
    "input",
    "user",
    "metadata",
  );
  const paths = fc.constantFrom(
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/tokenize",
  );
  await fc.assert(
    fc.asyncProperty(fc.dictionary(field, fc.jsonValue()), paths, async (body, path) => {
      const { prefix, outputTokens, numSequences } = await termsOf(body, path);
      expect(numSequences).toBeGreaterThanOrEqual(1);
      for (const count of [outputTokens, numSequences, prefix.numBlocks, prefix.promptTokens, priorityOf(body)]) {
        expect(Number.isFinite(count) && count >= 0).toBe(true);
      }
    }),
  );
});
