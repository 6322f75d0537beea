/** What holding requests to grammars has cost so far. */

export interface ConstraintStats {
  readonly numRequests: number;
  readonly numCompiled: number;
  readonly numCacheHits: number;
  readonly compileMs: number;
  /** Time that steps waited for masks. */
  readonly maskWaitMs: number;
  /** Sequences that sat a step out because their mask was not there. */
  readonly numSkippedSteps: number;
  readonly numThreadsReplaced: number;
}

export const NO_CONSTRAINTS: ConstraintStats = {
  numRequests: 0,
  numCompiled: 0,
  numCacheHits: 0,
  compileMs: 0,
  maskWaitMs: 0,
  numSkippedSteps: 0,
  numThreadsReplaced: 0,
};
