/**
 * The engine's default sizes of a step, which the command line, the planner, the tuner and reports about memory share.
 */

/** Sequences at once. */
export const DEFAULT_MAX_NUM_SEQS = 64;

const TOKENS_PER_SEQUENCE = 4;
/**
 * From this many rows on, a larger step is no faster per row; a shorter one admits new requests and ends cancelled ones
 * sooner.
 */
const LEAST_BATCHED_TOKENS = 128;

/** Tokens of one step: room for prompts where every sequence decodes (decision 46). */
export function defaultBatchedTokens(maxNumSeqs: number): number {
  return Math.max(LEAST_BATCHED_TOKENS, TOKENS_PER_SEQUENCE * maxNumSeqs);
}

/** The rule in words. @param sequences what it counts, such as "of 32 sequences" */
export const batchedTokensRule = (sequences: string): string =>
  `four tokens for each ${sequences}, ${LEAST_BATCHED_TOKENS} at least`;
