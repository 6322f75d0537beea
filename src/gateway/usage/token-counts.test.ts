import fc from "fast-check";
import { expect, test } from "vitest";
import type { TokenCounts } from "./record.js";
import { countsOf, promptTokensOf } from "./token-counts.js";

const tokens = fc.nat(1_000_000);
const truth = fc.record({
  fresh: tokens,
  cacheRead: tokens,
  cacheWrite: tokens,
  output: tokens,
  share: fc.double({ min: 0, max: 1, noNaN: true }),
});

/** Each API's own report of the same truth. */
const REPORTS: Readonly<Record<string, (t: TokenCounts) => object>> = {
  "OpenAI's chat": (t) => ({
    prompt_tokens: promptTokensOf(t),
    completion_tokens: t.output,
    total_tokens: promptTokensOf(t) + t.output,
    prompt_tokens_details: { cached_tokens: t.cacheRead, cache_write_tokens: t.cacheWrite, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: t.reasoning },
  }),
  "reasoning beyond the completion": (t) => ({
    prompt_tokens: promptTokensOf(t),
    completion_tokens: t.output - t.reasoning,
    total_tokens: promptTokensOf(t) + t.output,
    prompt_tokens_details: { cached_tokens: t.cacheRead, cache_write_tokens: t.cacheWrite },
    completion_tokens_details: { reasoning_tokens: t.reasoning },
  }),
  "OpenAI's responses": (t) => ({
    input_tokens: promptTokensOf(t),
    output_tokens: t.output,
    total_tokens: promptTokensOf(t) + t.output,
    input_tokens_details: { cached_tokens: t.cacheRead, cache_write_tokens: t.cacheWrite },
    output_tokens_details: { reasoning_tokens: t.reasoning },
  }),
  "Anthropic's messages": (t) => ({
    input_tokens: t.fresh,
    cache_read_input_tokens: t.cacheRead,
    cache_creation_input_tokens: t.cacheWrite,
    cache_creation: { ephemeral_5m_input_tokens: t.cacheWrite, ephemeral_1h_input_tokens: 0 },
    output_tokens: t.output,
    output_tokens_details: { thinking_tokens: t.reasoning },
    service_tier: "standard",
  }),
};

test.each(Object.entries(REPORTS))("%s is mapped to the truth", (_, report) => {
  fc.assert(
    fc.property(truth, ({ share, ...rest }) => {
      const counts = { ...rest, reasoning: Math.floor(rest.output * share) };
      expect(countsOf(report(counts) as Record<string, unknown>)).toEqual(counts);
    }),
  );
});

test("Gemini's thoughts are an addend, and its prompt includes what was cached", () => {
  fc.assert(
    fc.property(truth, tokens, ({ fresh, cacheRead, output }, reasoning) => {
      const usage = {
        promptTokenCount: fresh + cacheRead,
        cachedContentTokenCount: cacheRead,
        candidatesTokenCount: output,
        thoughtsTokenCount: reasoning,
        promptTokensDetails: [{ modality: "TEXT", tokenCount: fresh + cacheRead }],
      };
      expect(countsOf(usage)).toEqual({ fresh, cacheRead, cacheWrite: 0, output: output + reasoning, reasoning });
    }),
  );
});

const FIELDS = [
  "prompt_tokens",
  "completion_tokens",
  "total_tokens",
  "input_tokens",
  "output_tokens",
  "promptTokenCount",
  "cachedContentTokenCount",
  "thoughtsTokenCount",
  "candidatesTokenCount",
  "prompt_cache_hit_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
];
const DETAILS = ["prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details"];
const hostile = fc.oneof(fc.integer(), fc.double(), fc.string(), fc.constant(null), fc.boolean(), tokens);

test("no report, however hostile, gives counts that are negative, broken, or less than their parts", () => {
  const usage = fc.tuple(
    fc.dictionary(fc.constantFrom(...FIELDS), hostile),
    fc.dictionary(
      fc.constantFrom(...DETAILS),
      fc.oneof(
        hostile,
        fc.dictionary(fc.constantFrom("cached_tokens", "cache_write_tokens", "reasoning_tokens"), hostile),
      ),
    ),
  );
  fc.assert(
    fc.property(usage, ([fields, details]) => {
      const counts = countsOf({ ...fields, ...details });
      if (counts === undefined) return;
      const { fresh, cacheRead, cacheWrite, output, reasoning } = counts;
      for (const count of [fresh, cacheRead, cacheWrite, output, reasoning]) {
        expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
      }
      expect(reasoning).toBeLessThanOrEqual(output);
      const { prompt_tokens: prompt } = fields;
      const isPrompt = typeof prompt === "number" && prompt >= 0 && prompt <= 1e9 && !("promptTokenCount" in fields);
      // JSON may say -0.
      if (isPrompt) expect(promptTokensOf(counts)).toBe(Math.floor(prompt) + 0);
    }),
    { numRuns: 500 },
  );
});

test("contradictions are clamped and marked", () => {
  const cachedBeyondPrompt = { prompt_tokens: 5, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 9 } };
  expect(countsOf(cachedBeyondPrompt)).toEqual({
    fresh: 0,
    cacheRead: 5,
    cacheWrite: 0,
    output: 2,
    reasoning: 0,
    isDoubtful: true,
  });
  expect(countsOf({ prompt_tokens: 5, completion_tokens: -2 })).toMatchObject({ output: 0, isDoubtful: true });
  expect(countsOf({ prompt_tokens: 1e300, output_tokens: 3 })).toMatchObject({ output: 3, isDoubtful: true });
  expect(countsOf({ service_tier: "x" })).toBeUndefined();
  expect(countsOf({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })).toBeUndefined();
  expect(countsOf({ prompt_tokens: -1, completion_tokens: 1e10 })).toBeUndefined();
});

test("predicted outputs are drafts", () => {
  const details = { accepted_prediction_tokens: 3, rejected_prediction_tokens: 2 };
  const usage = { prompt_tokens: 1, completion_tokens: 9, completion_tokens_details: details };
  expect(countsOf(usage)).toMatchObject({ output: 9, drafted: 5, accepted: 3 });
});
