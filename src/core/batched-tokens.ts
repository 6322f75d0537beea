/**
 * The engine's default sizes of a step, which the command line, the planner, the tuner and reports about memory share.
 */

/** Concurrent sequences. */
export const DEFAULT_MAX_NUM_SEQS = 64;

const TOKENS_PER_SEQUENCE = 4;
/**
 * From this many rows on, a larger step is no faster per row, while a shorter one admits new requests and ends
 * cancelled
 * ones sooner.
 */
const LEAST_BATCHED_TOKENS = 128;

/** Tokens of one step: leaves room for prompts while every sequence decodes (decision 46). */
export function defaultBatchedTokens(maxNumSeqs: number): number {
  return Math.max(LEAST_BATCHED_TOKENS, TOKENS_PER_SEQUENCE * maxNumSeqs);
}

/** The rule in words. @param sequences the counted sequences, such as "of 32 sequences" */
export const batchedTokensRule = (sequences: string): string =>
  `four tokens for each ${sequences}, ${LEAST_BATCHED_TOKENS} at least`;
