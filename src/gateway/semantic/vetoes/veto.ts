/** The interface of vetoes, and the functions that several of them share. */
import type { Question } from "../text/question.js";

/**
 * How much of a question's wording may differ. strict: function words, the question's frame, inflection and safe
 * synonyms. balanced: also synonyms that fit most questions, and words of little weight. loose: a fifth of the weight
 * of all words; the other vetoes must then find the differences.
 */
export type Strictness = "strict" | "balanced" | "loose";

export interface VetoContext {
  readonly strictness: Strictness;
  /** Inverse document frequency of a word over the stored prompts, from 0 (in every prompt) to 1 (in one of many). */
  readonly rarity: (word: string) => number;
}

export interface Veto {
  /** The veto's name in counts and metrics. */
  readonly name: string;
  /** Whether the answer to one question may be wrong for the other. Symmetric and pure. */
  readonly objects: (a: Question, b: Question, context: VetoContext) => boolean;
}

/** Whether two lists have the same elements, each equally often. */
export function isSameBag(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  const [left, right] = [[...a].sort(), [...b].sort()];
  return left.every((element, i) => element === right[i]);
}

/** The elements of one list that the other lacks. */
export function onlyIn(a: readonly string[], b: readonly string[]): readonly string[] {
  const others = new Set(b);
  return a.filter((element) => !others.has(element));
}
