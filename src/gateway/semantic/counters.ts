/** Counts the requests that the semantic cache looked at, by their outcome. */
import type { TrustSummary } from "./learning/trust.js";

export interface SemanticCounts {
  /** Requests whose question was compared with the stored ones. */
  lookups: number;
  /** Lookups with a stored question that was near enough. */
  candidates: number;
  /** Lookups with a candidate that every veto let pass. */
  agreed: number;
  /** Hits that were served. */
  served: number;
  /** Hits that were generated as well, to be judged. */
  audited: number;
  judgedSame: number;
  judgedDifferent: number;
  /** The judge came to no verdict. */
  unjudged: number;
  /** A client said that a hit was wrong. */
  reported: number;
  stored: number;
  /** No vector was available, or the database failed. */
  failures: number;
  /** Objections to the nearest candidate by veto. */
  readonly objections: Record<string, number>;
}

export const newCounts = (): SemanticCounts => ({
  lookups: 0,
  candidates: 0,
  agreed: 0,
  served: 0,
  audited: 0,
  judgedSame: 0,
  judgedDifferent: 0,
  unjudged: 0,
  reported: 0,
  stored: 0,
  failures: 0,
  objections: {},
});

export interface SemanticStatus {
  readonly model: string;
  /**
   * shadow: nothing is served; serve: hits are served if the bound is met; disabled: audits have contradicted the
   * bound.
   */
  readonly state: "shadow" | "serve" | "disabled";
  /** The operator's setting. */
  readonly mode: "shadow" | "serve";
  /** Number of judged hits, and their share of wrong ones, at which hits may be served. */
  readonly minJudged: number;
  readonly maxError: number;
  readonly entries: number;
  readonly bytes: number;
  readonly counts: SemanticCounts;
  readonly trust: TrustSummary;
}
