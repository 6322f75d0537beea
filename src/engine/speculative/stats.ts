/** What came of drafts. */

/** Counters since start, as vLLM names them. */
export interface SpeculationStats {
  readonly numDrafts: number;
  readonly numDraftTokens: number;
  readonly numAcceptedTokens: number;
  /** Drafts whose token at this place was accepted. */
  readonly numAcceptedTokensPerPosition: readonly number[];
}

export const NO_SPECULATION_STATS: SpeculationStats = {
  numDrafts: 0,
  numDraftTokens: 0,
  numAcceptedTokens: 0,
  numAcceptedTokensPerPosition: [],
};
