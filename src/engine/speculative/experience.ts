/** A speculator's measurements over all requests of a kind: how often drafts come true, and whether they pay. */
import { Acceptance } from "./acceptance.js";
import { DraftAccount } from "./draft-account.js";

/** Levels of expected probability with acceptance rates of their own. */
export const NUM_LEVELS = 8;
/** Half-life of an observation in tokens. */
const MEMORY = 512;

export class Experience {
  /** Acceptance of the draft model: by its own probability for the token, and over all tokens. */
  readonly byModel = new Acceptance(NUM_LEVELS, MEMORY);
  readonly byModelOverall = new Acceptance(1, MEMORY);
  /** Acceptance of alternatives, by the drafter's own probability. */
  readonly alternatives = new Acceptance(NUM_LEVELS, MEMORY);
  readonly account = new DraftAccount();
  /** Whether the draft model pays, by the last plan. */
  isModelWorthIt = true;
  /** Steps that might have drafts, and those in which no draft of the draft model looked profitable. */
  numAsked = 0;
  numUnprofitable = 0;
}
