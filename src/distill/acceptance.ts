/** Acceptance of drafts by position. */
import type { SpeculationStats } from "../engine/api/stats.js";

export interface MeasuredAcceptance {
  /** Share of all drafts that were accepted at least up to each position. */
  readonly byPosition: readonly number[];
  readonly numDrafts: number;
  /** Tokens per step of the model: accepted ones and the model's own. */
  readonly tokensPerStep: number;
}

/** @param numPositions longest draft, in tokens */
export function acceptanceOf(stats: SpeculationStats, numPositions: number): MeasuredAcceptance {
  const { numDrafts, numAcceptedTokens, numAcceptedTokensPerPosition } = stats;
  const shareOf = (count: number): number => (numDrafts === 0 ? 0 : count / numDrafts);
  return {
    byPosition: Array.from({ length: numPositions }, (_, i) => shareOf(numAcceptedTokensPerPosition[i] ?? 0)),
    numDrafts,
    tokensPerStep: 1 + shareOf(numAcceptedTokens),
  };
}
