/** Both questions must negate equally often, and no word may have a negating prefix in one of them only. */
import type { Question } from "../text/question.js";
import { NEGATING_PREFIXES, NEGATIONS } from "../words/languages.js";
import { onlyIn, type Veto } from "./veto.js";

const countOf = ({ words }: Question) => words.filter((word) => NEGATIONS.has(word)).length;

function hasPrefixed(a: readonly string[], b: readonly string[]): boolean {
  const others = new Set(b);
  return a.some((word) =>
    NEGATING_PREFIXES.some(
      (prefix) => word.length > prefix.length + 2 && word.startsWith(prefix) && others.has(word.slice(prefix.length)),
    ),
  );
}

export const NEGATION: Veto = {
  name: "negation",
  objects(a, b) {
    if (countOf(a) !== countOf(b)) return true;
    const [left, right] = [onlyIn(a.words, b.words), onlyIn(b.words, a.words)];
    return hasPrefixed(left, right) || hasPrefixed(right, left);
  },
};
