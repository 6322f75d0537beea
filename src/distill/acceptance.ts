/** How many of a drafter's guesses come true, by their place in the draft. */
import type { SpeculationStats } from "../engine/speculative/stats.js";

export interface Acceptance {
  /** engine: drafts checked by the engine as it answered. heads: agreement of guesses with the model's choice on given text, each depth by itself. */
  readonly measuredBy: "engine" | "heads";
  /** Share accepted at each place. By the engine: of all drafts, so that a place counts only where those before it were accepted. */
  readonly byPosition: readonly number[];
  readonly numDrafts: number | undefined;
  /** Tokens a step of the model yields with such drafts: those accepted, and its own. */
  readonly tokensPerStep: number | undefined;
}

/** Of drafts of up to `numPositions` tokens. */
export function acceptanceOf(stats: SpeculationStats, numPositions: number): Acceptance {
  const { numDrafts, numAcceptedTokens, numAcceptedTokensPerPosition } = stats;
  const shareOf = (count: number): number => (numDrafts === 0 ? 0 : count / numDrafts);
  return {
    measuredBy: "engine",
    byPosition: Array.from({ length: numPositions }, (_, i) => shareOf(numAcceptedTokensPerPosition[i] ?? 0)),
    numDrafts,
    tokensPerStep: 1 + shareOf(numAcceptedTokens),
  };
}

/** @param agreement by depth, as the trainer of heads logs it on held-out text */
export function acceptanceOfHeads(agreement: readonly number[]): Acceptance {
  return { measuredBy: "heads", byPosition: agreement, numDrafts: undefined, tokensPerStep: undefined };
}
