/** Patterns as expressions: by their automaton where it is small, else as they stand. */
import { type Automaton, automatonExpression, automatonOf } from "./automaton.js";
import { bytesOfSet, type CharacterSet, complement } from "./character-set.js";
import { EMPTY, GrammarWriter } from "./ebnf.js";
import { spellInJson } from "./json-string.js";
import { Languages } from "./language.js";
import { patternLanguage } from "./pattern-language.js";
import { hasAssertions, RegexError, regexExpression, regexTree, type SpellSet } from "./regex.js";

/** What broken text decodes to is written by no answer. */
export const WRITABLE: CharacterSet = complement([[0xfffd, 0xfffd]]);
/** Larger automata are of repetitions with large counts, which are better written as they stand. */
const FEW_STATES = 400;
const FEW_STEPS = 20_000;
/** Longer spellings of a set are rules, so that each is there once. */
const MAX_INLINE = 60;

const spellPlainly: SpellSet = (set) => `(${bytesOfSet(set)})`;

/**
 * The pattern's texts, each followed by `end`. In a rule of many ways the grammar engine takes some for equal that are not, and `cbbc|ccba|cba|b` would have
 * ccbbc; an automaton has a rule for each state.
 */
export function patternExpression(
  writer: GrammarWriter,
  pattern: string,
  { isInJson, isSearch, end }: { readonly isInJson: boolean; readonly isSearch: boolean; readonly end: string },
): string | undefined {
  const spell = isInJson ? spellInJson : spellPlainly;
  let automaton: Automaton<CharacterSet> | undefined;
  try {
    const languages = new Languages(FEW_STEPS);
    automaton = automatonOf(languages, patternLanguage(languages, pattern, isSearch), WRITABLE, FEW_STATES);
  } catch (thrown) {
    if (!(thrown instanceof RegexError) || hasAssertions(regexTree(pattern))) throw thrown;
    const written = regexExpression(pattern, spell, isSearch);
    return end === EMPTY ? written : `(${written} ${end})`;
  }
  return automaton === undefined ? undefined : automatonExpression(writer, automaton, spelled(writer, spell), end);
}

/** Sets as they are spelled, the long ones as rules. */
export function spelled(writer: GrammarWriter, spell: SpellSet): (set: CharacterSet) => string {
  return (set) => {
    const text = spell(set);
    return text.length > MAX_INLINE ? writer.rule(text) : text;
  };
}

/** The texts that match from end to end, as an expression. */
export function plainRegexExpression(writer: GrammarWriter, pattern: string): string {
  const written = patternExpression(writer, pattern, { isInJson: false, isSearch: false, end: EMPTY });
  if (written !== undefined) return written;
  throw new RegexError("expected a pattern that some text matches, got one that none does");
}

/** The texts that match from end to end. */
export function grammarOfRegex(pattern: string): string {
  const writer = new GrammarWriter();
  return writer.text(plainRegexExpression(writer, pattern));
}
