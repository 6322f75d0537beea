/** Sources of drafts: guesses at a sequence's next tokens, which the model verifies in one step. */
import type { ScheduledSequence, Sequence } from "../step/sequence.js";
import type { StepCost } from "../step/step-cost.js";

export interface Draft {
  readonly tokens: readonly number[];
  /** For each token, the probability, 0 to 1, that it is right if all before it are, as estimated by the drafter. */
  readonly chances: readonly number[];
  /** Other tokens for the first place, and the probability of each in the drafter's own distribution; absent: none. */
  readonly alternatives?: Alternatives;
}

interface Alternatives {
  readonly tokens: readonly number[];
  readonly chances: readonly number[];
}

/** A draft under construction. */
export interface GrowingDraft extends Draft {
  readonly tokens: number[];
  readonly chances: number[];
  alternatives?: Alternatives;
}

export interface Drafter {
  readonly name: string;
  /** Reads the sequence's tokens when it begins to decode. Without this, the first `propose` reads them. */
  begin?(sequence: Sequence): void;
  /**
   * Drafts at most maxTokens (1 or more) tokens; undefined: none found. Called when all tokens of the sequence but the
   * last are computed.
   */
  propose(sequence: Sequence, maxTokens: number): Draft | undefined;
  /** The sequence has ended, finished or aborted. */
  forget(sequence: Sequence): void;
}

/**
 * @param chance of the drafted token in the drafter's own distribution;
 * @param numActive sequences drafted for in the same step
 */
export type GoesOn = (index: number, chance: number, numActive: number) => boolean;

/** A drafter that computes drafts for many sequences at once, at a cost that must be weighed. */
export interface BatchDrafter {
  readonly name: string;
  /** Cost of one drafted token for each of `numRows` sequences. */
  readonly cost: StepCost;
  /** Length of the longest draft, in tokens. */
  readonly maxTokens: number;
  /** @returns the sequences that are ready for a draft */
  ready(sequences: readonly Sequence[]): Promise<readonly Sequence[]>;
  /**
   * Drafts at most numTokens tokens for each of `sequences`, which are ready.
   * @param goesOn called after each token for sequences[index]: is another one wanted?
   */
  propose(sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn): Promise<readonly Draft[]>;
  forget(sequence: Sequence): void;
  /** While drafts do not pay, `ready` itself picks the few sequences to try; absent: the caller tries now and then. */
  readonly picksProbes?: true;
  /**
   * After a step is laid out: marks the rows whose hidden states the drafter needs.
   * @param isWorthIt drafts pay at present
   */
  tapHidden?(scheduled: readonly ScheduledSequence[], isWorthIt: boolean): Promise<void> | void;
  /** After a step is collected: reads those hidden states. */
  takeHidden?(): void;
}

/** Is this the last token worth drafting? Tokens after a stop token are never used. */
export const isLast = ({ sampling }: Sequence, token: number | undefined): boolean =>
  token !== undefined && sampling.stopTokenIds.includes(token);
