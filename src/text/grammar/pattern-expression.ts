/** Patterns as expressions: by their automaton if it is small, otherwise converted directly. */
import { type Automaton, automatonExpression, automatonOf } from "./automaton.js";
import { bytesOfSet, type CharacterSet, complement } from "./character-set.js";
import { EMPTY, GrammarWriter } from "./ebnf.js";
import { spellInJson } from "./json-string.js";
import { Languages } from "./language.js";
import { patternLanguage } from "./pattern-language.js";
import { hasAssertions, RegexError, regexExpression, regexTree, type SpellSet } from "./regex.js";

/** Answers never contain U+FFFD, because broken text decodes to it. */
export const WRITABLE: CharacterSet = complement([[0xfffd, 0xfffd]]);
/** Larger automata come from repetitions with large counts, which are better converted directly. */
const FEW_STATES = 400;
const FEW_STEPS = 20_000;
/** A longer spelling of a set becomes a rule, so that it occurs only once. */
const MAX_INLINE = 60;

const spellPlainly: SpellSet = (set) => `(${bytesOfSet(set)})`;

/**
 * The pattern's texts, each followed by `end`. In a rule of many branches the grammar engine confuses some, and
 * `cbbc|ccba|cba|b` would accept ccbbc. An automaton avoids this, because it has one rule per state.
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

/** Spells sets; a long spelling becomes a rule. */
export function spelled(writer: GrammarWriter, spell: SpellSet): (set: CharacterSet) => string {
  return (set) => {
    const text = spell(set);
    return text.length > MAX_INLINE ? writer.rule(text) : text;
  };
}

/** The expression of the texts that match as a whole. */
export function plainRegexExpression(writer: GrammarWriter, pattern: string): string {
  const written = patternExpression(writer, pattern, { isInJson: false, isSearch: false, end: EMPTY });
  if (written !== undefined) return written;
  throw new RegexError("expected a pattern that some text matches, got one that none does");
}

/** The grammar of the texts that match as a whole. */
export function grammarOfRegex(pattern: string): string {
  const writer = new GrammarWriter();
  return writer.text(plainRegexExpression(writer, pattern));
}
