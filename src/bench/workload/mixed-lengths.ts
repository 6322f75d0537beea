/** Answers of mixed lengths, and the same as a batch without continuous batching computes them. */
import type { Entry } from "./workload.js";

const NUM_LENGTHS = 48;
const PROMPT_TOKENS = 32;
const SHORTEST = 16;
const RANGE = 32;

/** From 16 to 512 tokens out, as many short as long ones on a logarithmic scale, mixed: 5 and 48 have no divisor in common. All times `scale`. */
export function mixedLengths(scale = 1): Entry[] {
  const tokens = (count: number) => Math.max(2, Math.round(scale * count));
  return Array.from({ length: NUM_LENGTHS }, (_, i) => ({
    promptTokens: tokens(PROMPT_TOKENS),
    outputTokens: tokens(SHORTEST * RANGE ** ((((i * 5) % NUM_LENGTHS) + 0.5) / NUM_LENGTHS)),
  }));
}

/** Every row as long as the longest of its batch. */
export function padded(entries: readonly Entry[], batchSize: number): Entry[] {
  return entries.map((entry, i) => {
    const first = i - (i % batchSize);
    const batch = entries.slice(first, first + batchSize);
    return { ...entry, outputTokens: Math.max(...batch.map(({ outputTokens }) => outputTokens)) };
  });
}

/** Of the tokens that padded batches compute, the share that was asked for. */
export function usefulShare(entries: readonly Entry[], batchSize: number): number {
  const totalOf = (all: readonly Entry[]) => all.reduce((sum, entry) => sum + entry.outputTokens, 0);
  return totalOf(entries) / totalOf(padded(entries, batchSize));
}
