/** Counters since start, as vLLM names them. */
export interface SpeculationStats {
  readonly numDrafts: number;
  readonly numDraftTokens: number;
  readonly numAcceptedTokens: number;
  /** Drafts whose token at this place was accepted. */
  readonly numAcceptedTokensPerPosition: readonly number[];
}
