/** Answers of mixed lengths, and the same answers padded as in a static batch. */
import type { Entry } from "./workload.js";

const NUM_LENGTHS = 48;
const PROMPT_TOKENS = 32;
const SHORTEST = 16;
const RANGE = 32;

/**
 * Outputs of 16 to 512 tokens, evenly spread on a logarithmic scale and mixed, because 5 and 48 are coprime. All
 * lengths are multiplied by `scale`.
 */
export function mixedLengths(scale = 1): Entry[] {
  const tokens = (count: number) => Math.max(2, Math.round(scale * count));
  return Array.from({ length: NUM_LENGTHS }, (_, i) => ({
    promptTokens: tokens(PROMPT_TOKENS),
    outputTokens: tokens(SHORTEST * RANGE ** ((((i * 5) % NUM_LENGTHS) + 0.5) / NUM_LENGTHS)),
  }));
}

/** Each row gets the length of the longest in its batch. */
export function padded(entries: readonly Entry[], batchSize: number): Entry[] {
  return entries.map((entry, i) => {
    const first = i - (i % batchSize);
    const batch = entries.slice(first, first + batchSize);
    return { ...entry, outputTokens: Math.max(...batch.map(({ outputTokens }) => outputTokens)) };
  });
}

/** Share of the tokens of padded batches that was requested. */
export function usefulShare(entries: readonly Entry[], batchSize: number): number {
  const totalOf = (all: readonly Entry[]) => all.reduce((sum, entry) => sum + entry.outputTokens, 0);
  return totalOf(entries) / totalOf(padded(entries, batchSize));
}
