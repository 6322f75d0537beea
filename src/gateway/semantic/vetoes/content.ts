/**
 * The words that carry the question must be the same. This is the strongest veto: of 79,800 pairs of different
 * questions about code, an encoder alone took 79 for the same at a cosine of 0.8; with this kind of gate, none.
 */
import type { Part } from "../text/form.js";
import { inflectionOf, isRegularPast } from "../text/inflection.js";
import type { Question } from "../text/question.js";
import { LIGHT_WORDS } from "../words/english.js";
import { SAFE_SYNONYMS, WIDE_SYNONYMS } from "../words/synonyms.js";
import { isSameBag, type Veto, type VetoContext } from "./veto.js";

type Synonyms = ReadonlyMap<string, number>;

/** Kinds of requests in which `a joke` and `jokes` ask for different things. */
const COUNTING = new Set(["GIVE", "OTHER"]);

export function isSameWord(a: string, b: string, synonyms: Synonyms): boolean {
  if (a === b) return true;
  const group = synonyms.get(a);
  if (group !== undefined && group === synonyms.get(b)) return true;
  return inflectionOf(a, b) !== undefined;
}

function isSamePart(a: Part, b: Part, synonyms: Synonyms, isCounting: boolean): boolean {
  if (a.isWord !== b.isWord) return false;
  if (!a.isWord || a.isName || b.isName) return a.text === b.text;
  if (isCounting && a.isOne !== b.isOne && inflectionOf(a.text, b.text) === "s") return false;
  return isSameWord(a.text, b.text, synonyms);
}

/** Whether the parts are equal in number and order. */
function isSameSequence(a: readonly Part[], b: readonly Part[], isCounting: boolean): boolean {
  return a.length === b.length && a.every((part, i) => isSamePart(part, b[i]!, SAFE_SYNONYMS, isCounting));
}

/** Whether the questions differ only in the form of the past: when did it end, and when it ended. */
function isSamePast(asked: Question, told: Question): boolean {
  if (!isSameBag(asked.form.cues, [...told.form.cues, "did"])) return false;
  const different = asked.form.parts.flatMap((part, i) => {
    const other = told.form.parts[i];
    return other !== undefined && isSamePart(part, other, SAFE_SYNONYMS, false)
      ? []
      : [[part.text, other?.text ?? ""] as const];
  });
  const [only] = different;
  const isOne = asked.form.parts.length === told.form.parts.length && different.length === 1;
  return isOne && isRegularPast(only![0], only![1]);
}

/** The parts of each question that have no counterpart in the other, each counterpart taken once. */
function unmatched(a: readonly Part[], b: readonly Part[], isCounting: boolean): readonly Part[] {
  const left = [...b];
  const alone = a.filter((part) => {
    const at = left.findIndex(
      (other) =>
        isSamePart(part, other, WIDE_SYNONYMS, isCounting) || isSamePart(part, other, SAFE_SYNONYMS, isCounting),
    );
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  return [...alone, ...left];
}

/** Share of the weight of all words that may have no counterpart, in the mode `loose`. */
const LOOSE_SHARE = 0.2;

function hasOtherContent(a: Question, b: Question, { strictness, rarity }: VetoContext): boolean {
  const isCounting = COUNTING.has(a.form.kind);
  if (strictness === "strict") {
    if (isSameBag(a.form.cues, b.form.cues)) return !isSameSequence(a.form.parts, b.form.parts, isCounting);
    return !isSamePast(a, b) && !isSamePast(b, a);
  }
  const alone = unmatched(a.form.parts, b.form.parts, isCounting);
  if (strictness === "balanced") {
    return !isSameBag(a.form.cues, b.form.cues) || alone.some(({ text, isWord }) => !isWord || !LIGHT_WORDS.has(text));
  }
  const weight = (parts: readonly Part[]) => parts.reduce((sum, { text }) => sum + 0.2 + rarity(text), 0);
  return weight(alone) > LOOSE_SHARE * (weight(a.form.parts) + weight(b.form.parts));
}

export const CONTENT: Veto = { name: "content", objects: hasOtherContent };
