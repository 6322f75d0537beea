import { expect, test } from "vitest";
import { usageOf } from "./answer-usage.js";

const of = (usage: unknown, padding = 0) => usageOf(Buffer.from(JSON.stringify({ text: "x".repeat(padding), usage })));

test("counts are read alike in every API, in small answers and large ones", () => {
  const openai = {
    prompt_tokens: 9,
    completion_tokens: 3,
    total_tokens: 14,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 2 },
  };
  // The total includes the reasoning, which this server leaves out of the completion.
  for (const padding of [0, 300_000]) {
    expect(of(openai, padding)).toEqual({ input: 9, cached: 4, output: 5, reasoning: 2 });
    const anthropic = { input_tokens: 5, cache_read_input_tokens: 2, cache_creation_input_tokens: 1, output_tokens: 7 };
    expect(of(anthropic, padding)).toEqual({ input: 8, cached: 2, output: 7, reasoning: 0 });
  }
  expect(of(null)).toEqual({ input: 0, cached: 0, output: 0, reasoning: 0 });
});
