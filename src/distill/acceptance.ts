/** How many of a drafter's guesses come true, by their place in the draft. */
import type { SpeculationStats } from "../engine/api/stats.js";

export interface MeasuredAcceptance {
  /** Share of all drafts whose guess at each place was accepted, and so those before it. */
  readonly byPosition: readonly number[];
  readonly numDrafts: number;
  /** Tokens a step of the model yields with such drafts: those accepted, and its own. */
  readonly tokensPerStep: number;
}

/** Of drafts of up to `numPositions` tokens. */
export function acceptanceOf(stats: SpeculationStats, numPositions: number): MeasuredAcceptance {
  const { numDrafts, numAcceptedTokens, numAcceptedTokensPerPosition } = stats;
  const shareOf = (count: number): number => (numDrafts === 0 ? 0 : count / numDrafts);
  return {
    byPosition: Array.from({ length: numPositions }, (_, i) => shareOf(numAcceptedTokensPerPosition[i] ?? 0)),
    numDrafts,
    tokensPerStep: 1 + shareOf(numAcceptedTokens),
  };
}
