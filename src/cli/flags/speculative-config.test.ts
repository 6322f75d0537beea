import { describe, expect, test } from "vitest";
import { DEFAULT_SPECULATIVE_CONFIG } from "../../engine/api/speculative-config.js";
import { parseSpeculativeConfig } from "./speculative-config.js";

describe("--speculative-config", () => {
  test("takes vLLM's keys, and defaults for the rest", () => {
    expect(parseSpeculativeConfig("{}")).toEqual(DEFAULT_SPECULATIVE_CONFIG);
    expect(parseSpeculativeConfig('{"model":"small.gguf"}')).toMatchObject({
      method: "draft_model",
      draftModelPath: "small.gguf",
    });
    expect(parseSpeculativeConfig('{"method":"eagle","model":"heads.gguf"}')).toMatchObject({
      method: "eagle",
      draftModelPath: "heads.gguf",
    });
    expect(parseSpeculativeConfig('{"method":"mtp"}')).toMatchObject({ method: "mtp", draftModelPath: undefined });
    const text = '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":3}';
    expect(parseSpeculativeConfig(text)).toEqual({
      ...DEFAULT_SPECULATIVE_CONFIG,
      method: "ngram",
      numSpeculativeTokens: 4,
      promptLookupMin: 3,
    });
  });

  test.each([
    ["ngram", /a JSON object/],
    ['{"method":"draft_model"}', /a model for method draft_model/],
    ['{"method":"heads"}', /a model for method heads/],
    ['{"method":"ngram","model":"a.gguf"}', /no model for method ngram/],
    ['{"method":"mtp","model":"a.gguf"}', /no model for method mtp/],
    ['{"model":""}', /the path of a model or of trained heads/],
    ["[]", /a JSON object/],
    ["null", /a JSON object/],
    [
      '{"method":"hydra"}',
      /method to be one of none, auto, ngram, suffix, mtp, draft_model, heads, medusa, eagle, eagle3/,
    ],
    ['{"num_speculative_tokens":0}', /num_speculative_tokens to be an integer in \[1, 64\], got 0/],
    ['{"num_speculative_tokens":"4"}', /num_speculative_tokens/],
    ['{"suffix_decoding_min_token_prob":1.5}', /a number in \[0, 1\]/],
    ['{"prompt_lookup_min":4,"prompt_lookup_max":2}', /prompt_lookup_min of at most prompt_lookup_max 2, got 4/],
    ['{"draft":1}', /keys among method, .*got "draft"/],
    ['{"__proto__":1}', /keys among/],
  ])("refuses %s", (text, message) => {
    expect(() => parseSpeculativeConfig(text)).toThrow(message);
  });
});
