/** Where drafts come from: a guess at a sequence's next tokens, which the model then checks all at once. */
import type { ScheduledSequence, Sequence } from "../step/sequence.js";
import type { StepCost } from "../step/step-cost.js";

export interface Draft {
  readonly tokens: readonly number[];
  /** For each token, how likely it is right if the ones before it are, as far as this drafter knows: 0 to 1. */
  readonly chances: readonly number[];
}

/** A draft in the making. */
export interface GrowingDraft extends Draft {
  readonly tokens: number[];
  readonly chances: number[];
}

export interface Drafter {
  readonly name: string;
  /** The sequence begins to decode: reads what it has so far. Left out, the first question does. */
  begin?(sequence: Sequence): void;
  /** At most maxTokens (1 or more) tokens that may come next; undefined: no idea. Called when all of the sequence's tokens are computed but the last. */
  propose(sequence: Sequence, maxTokens: number): Draft | undefined;
  /** The sequence has ended, finished or not. */
  forget(sequence: Sequence): void;
}

/**
 * @param chance that the guess had in the drafter's own distribution; @param numActive sequences that were guessed for together with it
 */
export type GoesOn = (index: number, chance: number, numActive: number) => boolean;

/** A drafter that guesses for many sequences at once, at a cost that is worth weighing. */
export interface BatchDrafter {
  readonly name: string;
  /** Of one guess for each of so many sequences. */
  readonly cost: StepCost;
  /** Longest guess. */
  readonly maxTokens: number;
  /** Those of the sequences that it can guess for now. */
  ready(sequences: readonly Sequence[]): Promise<readonly Sequence[]>;
  /**
   * At most numTokens guesses for each of `sequences`, which are ready.
   * @param goesOn asked after each guess for sequences[index] whether another one is wanted
   */
  propose(sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn): Promise<readonly Draft[]>;
  forget(sequence: Sequence): void;
  /** A step has been laid out: asks for the hidden states that it wants to see. */
  tapHidden?(scheduled: readonly ScheduledSequence[]): void;
  /** The step was computed and its tokens taken in: reads them. */
  takeHidden?(): void;
}

/** What comes after a stop token is not asked for. */
export const isLast = ({ sampling }: Sequence, token: number | undefined): boolean =>
  token !== undefined && sampling.stopTokenIds.includes(token);
