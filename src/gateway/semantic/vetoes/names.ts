/**
 * A name in one question must be in the other: words written as names, and words that few of the stored prompts have.
 */
import type { Question } from "../text/question.js";
import { looksLikeName } from "../text/tokens.js";
import { SAFE_SYNONYMS } from "../words/synonyms.js";
import { isSameWord } from "./content.js";
import type { Veto, VetoContext } from "./veto.js";

/** Above it, a word is rare enough to be a name in a text without capitals. */
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
  // A whole text in capitals has no names that stand out: there, each word is looked for.
  if (namesOf(a).some((name) => !words.has(name) && !SAFE_SYNONYMS.has(name))) return true;
  const rare = a.words.filter((word) => word.length > 2 && rarity(word) > RARE);
  return rare.some((word) => !words.has(word) && ![...words].some((other) => isSameWord(word, other, SAFE_SYNONYMS)));
}

export const NAMES: Veto = {
  name: "names",
  objects: (a, b, context) => lacks(a, b, context) || lacks(b, a, context),
};
