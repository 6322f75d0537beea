/** A relation (from, to, before, without, …) in both questions must lead to the same word in both. */
import type { Question } from "../text/question.js";
import { DIRECTED } from "../words/english.js";
import { SAFE_SYNONYMS } from "../words/synonyms.js";
import { isSameWord } from "./content.js";
import type { Veto } from "./veto.js";

/** Relation → the words that follow its occurrences. */
function objectsOf({ form }: Question): ReadonlyMap<string, readonly string[]> {
  const objects = new Map<string, string[]>();
  for (const [i, { text, isWord }] of form.parts.entries()) {
    const next = form.parts[i + 1];
    if (!isWord || !DIRECTED.has(text) || next === undefined) continue;
    objects.set(text, [...(objects.get(text) ?? []), next.text]);
  }
  return objects;
}

export const DIRECTION: Veto = {
  name: "direction",
  objects(a, b) {
    const others = objectsOf(b);
    return [...objectsOf(a)].some(([relation, words]) => {
      const right = others.get(relation);
      if (right === undefined) return false;
      return (
        words.length !== right.length ||
        words.some((word) => !right.some((other) => isSameWord(word, other, SAFE_SYNONYMS)))
      );
    });
  },
};
