/** The `usage` block: prompts counted once each, choices summed. */
import type { JobTotals } from "../job.js";

export interface Usage {
  readonly prompt_tokens: number;
  readonly total_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
}

/** `promptLengths` has one entry per prompt; the totals have `numChoices` generations for each, in order. */
export function usageOf(promptLengths: readonly number[], numChoices: number, totals: JobTotals): Usage {
  const promptTokens = promptLengths.reduce((sum, length) => sum + length, 0);
  const { numReasoningTokens } = totals;
  let cachedTokens = 0;
  for (let i = 0; i < totals.numCachedTokens.length; i += numChoices) cachedTokens += totals.numCachedTokens[i]!;
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + totals.numOutputTokens,
    completion_tokens: totals.numOutputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(numReasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: numReasoningTokens } }),
  };
}
