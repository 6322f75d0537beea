import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ANTHROPIC, OPENAI } from "../api/dialect.js";
import { AnswerStatistics } from "./answer-statistics.js";
import { claimsOf } from "./claims.js";
import { answerSizeOf, boundedFields, type PromptFacts, sizeOf } from "./estimate.js";
import { durationText, rateHeaders } from "./rate-headers.js";
import { windowEnd, windowStart } from "./windows.js";
import { WorstCost } from "./worst-cost.js";

const tokens = fc.nat(1_000_000);
const price = fc.bigInt({ min: 0n, max: 200_000_000_000n });
const prices = fc.record({
  version: fc.constant("t"),
  fresh: price,
  cacheRead: price,
  cacheWrite: price,
  output: price,
});

describe("how long answers are", () => {
  test("a quantile is at least the true one, and at most a fifth above it", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 20, maxLength: 500 }), (lengths) => {
        const statistics = new AnswerStatistics();
        for (const each of lengths) statistics.answered("key", "m", each);
        const sorted = [...lengths].sort((a, b) => a - b);
        const truth = sorted[Math.ceil(0.95 * sorted.length) - 1]!;
        const estimate = statistics.outputTokens("key", "m", 0);
        expect(estimate).toBeGreaterThanOrEqual(truth);
        expect(estimate).toBeLessThanOrEqual(Math.ceil((truth + 1) * 1.2));
      }),
    );
  });

  test("a new key is taken for the model's others, and a new model for the default", () => {
    const statistics = new AnswerStatistics();
    for (let i = 0; i < 20; i++) statistics.answered("old", "m", 1000);
    expect(statistics.outputTokens("new", "m", 256)).toBeGreaterThanOrEqual(1000);
    expect(statistics.outputTokens("new", "other", 256)).toBe(256);
  });

  test("what is long ago is forgotten", () => {
    const statistics = new AnswerStatistics();
    for (let i = 0; i < 2000; i++) statistics.answered("key", "m", 10_000);
    for (let i = 0; i < 5000; i++) statistics.answered("key", "m", 10);
    expect(statistics.outputTokens("key", "m", 0)).toBeLessThan(15);
  });

  test("memory is bounded by the keys that are kept", () => {
    const statistics = new AnswerStatistics();
    for (let key = 0; key < 12_000; key++) for (let i = 0; i < 20; i++) statistics.answered(`${key}`, "m", 50);
    for (let i = 0; i < 20; i++) statistics.answered("last", "m", 900);
    expect(statistics.outputTokens("0", "m", 0)).toBeLessThan(100);
    expect(statistics.outputTokens("last", "m", 0)).toBeGreaterThanOrEqual(900);
  });

  test("tokens per byte are learned", () => {
    const statistics = new AnswerStatistics();
    const before = statistics.promptTokens("m", 1000);
    for (let i = 0; i < 200; i++) statistics.prompted("m", 600, 1000);
    expect(before).toBe(300);
    expect(statistics.promptTokens("m", 1000)).toBeGreaterThan(590);
    statistics.prompted("m", 5, 0);
  });
});

describe("the size of a request", () => {
  const CHAT = "/v1/chat/completions";
  const text = { messages: [{ role: "user", content: "hello" }] };
  const UNKNOWN: PromptFacts = { maxModelLen: undefined, templateTokens: undefined };
  const FIELDS = ["messages", "input", "n", "prompt", "max_tokens", "query", "documents", "text_1", "text_2"] as const;

  const promptTokens = (path: string, body: object, facts: Partial<PromptFacts> = {}) =>
    sizeOf(path, { ...body }, 100, false, { ...UNKNOWN, ...facts }).promptTokens;

  test("has no fewer prompt tokens than bytes, and those of the model's template", () => {
    const answers = { numAnswers: 1, maxTokens: undefined };
    expect(sizeOf(CHAT, text, 100, true, UNKNOWN)).toEqual({
      promptTokens: 356,
      readBytes: 100,
      templateTokens: 0,
      ...answers,
    });
    expect(promptTokens(CHAT, text, { templateTokens: 1200 })).toBe(1556);
    expect(promptTokens("/v1/completions", { prompt: "x" }, { templateTokens: 1200 })).toBe(356);
    expect(sizeOf("/v1/embeddings", { input: "x" }, 100, false, UNKNOWN)).toMatchObject({
      numAnswers: 0,
      maxTokens: 0,
    });
  });

  test("has no more prompt tokens than the model's context holds, for each prompt", () => {
    expect(promptTokens(CHAT, text, { maxModelLen: 300 })).toBe(300);
    expect(promptTokens("/v1/completions", { prompt: ["a", "b", "c"] }, { maxModelLen: 64 })).toBe(192);
    expect(promptTokens("/v1/completions", { prompt: [1, 2, 3] }, { maxModelLen: 64 })).toBe(64);
    expect(promptTokens("/v1/unknown", {}, { maxModelLen: 64 })).toBe(356);
  });

  test("counts a query once with each text, and each text's template", () => {
    const [query, documents] = ["é".repeat(10), ["a", "b", "c"]];
    const [again, templates] = [2 * 20, 3 * 256];
    expect(promptTokens("/v1/rerank", { query, documents })).toBe(100 + again + templates);
    expect(promptTokens("/rerank", { query, documents }, { maxModelLen: 128 })).toBe(6 * 128);
    expect(promptTokens("/rerank", { query, texts: documents })).toBe(100 + again + templates);
    expect(promptTokens("/score", { text_1: query, text_2: documents })).toBe(100 + again + templates);
    expect(promptTokens("/v1/score", { text_1: documents, text_2: documents })).toBe(100 + templates);
    for (const names of [
      { queries: query, documents },
      { queries: query, items: documents },
      { data_1: [query], data_2: documents },
    ])
      expect(promptTokens("/score", names, { maxModelLen: 10_000 })).toBe(100 + again + templates);
    const odd = { toString: 1 };
    const oddAgain = 2 * JSON.stringify(odd).length;
    expect(promptTokens("/score", { text_1: [odd], text_2: { content: documents } }, { maxModelLen: 8 })).toBe(
      100 + oddAgain + templates,
    );
    expect(promptTokens("/v1/embeddings", { input: documents })).toBe(100 + templates);
    expect(promptTokens("/v2/embed", { texts: documents }, { maxModelLen: 8 })).toBe(8 * documents.length);
    // An engine may ignore the field of the other path.
    expect(promptTokens("/v2/embed", { input: "a", texts: documents }, { maxModelLen: 8 })).toBe(8 * documents.length);
    expect(promptTokens("/v1/embeddings", { input: [[1, 2], [3]] })).toBe(100 + 2 * 256);
  });

  test("counts every choice of every prompt", () => {
    const answersOf = (body: object) => answerSizeOf(CHAT, body as Record<string, unknown>, true).numAnswers;
    expect(answersOf({ n: 3, prompt: ["a", "b"] })).toBe(6);
    expect(answersOf({ prompt: [1, 2, 3] })).toBe(1);
    expect(answersOf({ best_of: 4, n: 2 })).toBe(4);
    expect(answersOf({ n: -1 })).toBe(1);
    expect(answersOf({ n: "nine", best_of: null })).toBe(1);
  });

  test("counts as many choices as an engine may make of it", () => {
    const answersOf = (n: unknown) => answerSizeOf(CHAT, { n }, true).numAnswers;
    expect(answersOf(5000)).toBe(5000);
    expect(answersOf(1e300)).toBe(1e6);
  });

  test("takes the length of an answer only from the fields that bound it on its path", () => {
    const all = { max_tokens: 30, max_completion_tokens: 20, max_output_tokens: 10 };
    const lengthOf = (path: string, body: object) => answerSizeOf(path, { ...body }, true).maxTokens;
    expect(lengthOf(CHAT, all)).toBe(30);
    expect(lengthOf(CHAT, { max_tokens: -1 })).toBeUndefined();
    expect(lengthOf(CHAT, { max_output_tokens: 1 })).toBeUndefined();
    expect(lengthOf("/v1/completions", { max_completion_tokens: 1 })).toBeUndefined();
    expect(lengthOf("/v1/messages", { max_output_tokens: 1 })).toBeUndefined();
    expect(lengthOf("/v1/responses", { max_tokens: 1 })).toBeUndefined();
    expect(lengthOf("/v1/responses", all)).toBe(10);
  });

  test("counts images that are only named", () => {
    const image = { type: "image_url", image_url: { url: "https://x" } };
    const body = { messages: [{ role: "user", content: [image, image, { type: "text", text: "?" }] }] };
    expect(promptTokens(CHAT, body)).toBe(356 + 2 * 4096);
  });

  test("is read from any body without an exception", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(CHAT, "/v1/completions", "/v1/embeddings", "/v1/rerank", "/score"),
        fc.dictionary(fc.constantFrom(...FIELDS), fc.jsonValue()),
        (path, body) => {
          const { promptTokens, readBytes, numAnswers, maxTokens = 0 } = sizeOf(path, body, 10, true, UNKNOWN);
          for (const each of [promptTokens, numAnswers, maxTokens]) expect(each).toBeGreaterThanOrEqual(0);
          expect(readBytes).toBeGreaterThanOrEqual(10);
        },
      ),
    );
  });

  test("is bounded in the field that the request or its API has", () => {
    const bounded = (path: string, body: object, own = "max_completion_tokens") =>
      boundedFields(path, { ...body }, own, 50);
    expect(bounded("/v1/responses", {})).toEqual({ max_output_tokens: 50 });
    expect(bounded("/v1/messages", {})).toEqual({ max_tokens: 50 });
    expect(bounded(CHAT, {})).toEqual({ max_completion_tokens: 50 });
    expect(bounded(CHAT, { max_tokens: 90 })).toEqual({ max_tokens: 50 });
    expect(bounded(CHAT, { max_tokens: -1, max_completion_tokens: 9 })).toEqual({
      max_tokens: 50,
      max_completion_tokens: 9,
    });
    expect(bounded("/v1/completions", { max_tokens: -1 })).toEqual({ max_tokens: 50 });
    expect(bounded(CHAT, { max_completion_tokens: 9, max_tokens: 90 })).toEqual({
      max_completion_tokens: 9,
      max_tokens: 50,
    });
    expect(bounded(CHAT, { max_completion_tokens: 90 }, "max_tokens")).toEqual({
      max_completion_tokens: 50,
      max_tokens: 50,
    });
  });
});

describe("the worst cost", () => {
  test("is at least the cost, however much of the prompt was cached", async () => {
    const { costOf } = await import("../prices/price.js");
    fc.assert(
      fc.property(prices, tokens, tokens, tokens, tokens, (each, fresh, cacheRead, cacheWrite, output) => {
        const counts = { fresh, cacheRead, cacheWrite, output, reasoning: 0 };
        const worst = new WorstCost(each).of(fresh + cacheRead + cacheWrite, output);
        expect(BigInt(worst)).toBeGreaterThanOrEqual(costOf(counts, each));
      }),
    );
  });

  test("pays for as many tokens as fit, and no more", () => {
    fc.assert(
      fc.property(prices, tokens, fc.nat(2 ** 40), (each, prompt, money) => {
        fc.pre(each.output > 1_000n);
        const worst = new WorstCost(each);
        const output = worst.outputFor(money, prompt);
        if (output > 0) expect(worst.of(prompt, output)).toBeLessThanOrEqual(money);
        expect(worst.of(prompt, output + 1)).toBeGreaterThan(money - 1);
      }),
    );
  });
});

describe("headers", () => {
  const limited = (id: string, requestsPerMinute: number) =>
    claimsOf([{ kind: "key", id, limits: { budgets: [], requestsPerMinute } }]).requests[0]!;

  test("are of the scope that has least left", () => {
    const claims = { ...claimsOf([]), requests: [limited("a", 100), limited("b", 10)] };
    const levels = { budgets: [], requests: [95 * 60_000, 2 * 60_000 + 1], tokens: [], concurrent: [] };
    expect(rateHeaders(claims, levels, OPENAI, 0)).toEqual({
      "x-ratelimit-limit-requests": "100",
      "x-ratelimit-remaining-requests": "5",
      "x-ratelimit-reset-requests": "57s",
    });
    expect(rateHeaders(claims, levels, ANTHROPIC, 0)).toMatchObject({
      "anthropic-ratelimit-requests-reset": "1970-01-01T00:00:57Z",
    });
  });

  test.each([
    [12, "12ms"],
    [1_000, "1s"],
    [59_001, "1m0s"],
    [360_000, "6m0s"],
    [3_661_000, "1h1m1s"],
  ])("%i ms are %s", (ms, text) => expect(durationText(ms)).toBe(text));
});

test("a total is one window without an end", () => {
  expect([windowStart("total", 0), windowStart("total", 4e12), windowEnd("total", 0)]).toEqual([0, 0, undefined]);
});

test("a moment lies within its window, and windows follow each other", () => {
  fc.assert(
    fc.property(fc.constantFrom("hour", "day", "month"), fc.integer({ min: 0, max: 4e12 }), (window, at) => {
      const start = windowStart(window, at);
      const end = windowEnd(window, start)!;
      expect(start <= at && at < end).toBe(true);
      expect(windowStart(window, end)).toBe(end);
      expect(windowStart(window, end - 1)).toBe(start);
    }),
  );
});
