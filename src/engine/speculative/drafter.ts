/** Where drafts come from: a guess at a sequence's next tokens, which the model then checks all at once. */
import type { Sequence } from "../sequence.js";

export interface Draft {
  readonly tokens: readonly number[];
  /** For each token, how likely it seems if the ones before it are right, from what this drafter knows of this text: 0 to 1. */
  readonly confidences: readonly number[];
  /** Which of its kinds of guess this is, 0 to NUM_KINDS − 1, better ones higher: acceptance is learnt for each. */
  readonly kind: number;
}

export const NUM_KINDS = 6;

export interface Drafter {
  readonly name: string;
  /** At most maxTokens (1 or more) tokens that may come next; undefined: no idea. Called when all of the sequence's tokens are computed but the last. */
  propose(sequence: Sequence, maxTokens: number): Draft | undefined;
  /** The sequence has ended, finished or not. */
  forget(sequence: Sequence): void;
}

/** The kind of a guess that rests on `length` matching tokens. */
export function kindOfMatch(length: number): number {
  if (length <= 3) return Math.max(0, length - 2);
  return length <= 5 ? 2 : length <= 8 ? 3 : length <= 16 ? 4 : 5;
}
