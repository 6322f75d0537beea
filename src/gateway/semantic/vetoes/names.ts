/**
 * A name in one question must be in the other. Words written as names count, and words that few of the stored prompts
 * have.
 */
import type { Question } from "../text/question.js";
import { looksLikeName } from "../text/tokens.js";
import { SAFE_SYNONYMS } from "../words/synonyms.js";
import { isSameWord } from "./content.js";
import type { Veto, VetoContext } from "./veto.js";

/** A rarer word may be a name in a text without capitals. */
const RARE = 0.9;

/** `'s` belongs to the sentence, not to the name. */
const bare = (lower: string): string => lower.replace(/'s$/, "");

function namesOf({ units }: Question): readonly string[] {
  return units
    .filter(({ token, quantity }) => quantity === undefined && looksLikeName(token))
    .map(({ token }) => bare(token.lower));
}

function lacks(a: Question, b: Question, { rarity }: VetoContext): boolean {
  const words = new Set(b.tokens.filter(({ kind }) => kind === "word").map(({ lower }) => bare(lower)));
  // Names do not stand out in a text of capitals alone, so a name is looked for among all of its words.
  if (namesOf(a).some((name) => !words.has(name) && !SAFE_SYNONYMS.has(name))) return true;
  const rare = a.words.filter((word) => word.length > 2 && rarity(word) > RARE);
  return rare.some((word) => !words.has(word) && ![...words].some((other) => isSameWord(word, other, SAFE_SYNONYMS)));
}

export const NAMES: Veto = {
  name: "names",
  objects: (a, b, context) => lacks(a, b, context) || lacks(b, a, context),
};
