/**
 * JSON strings under patterns, formats and lengths: a single constraint is converted directly, several become the
 * automaton of their intersection.
 */
import { type Automaton, accepts, automatonExpression, automatonOf } from "./automaton.js";
import type { CharacterSet } from "./character-set.js";
import { type GrammarWriter, literal } from "./ebnf.js";
import { FORMATS } from "./formats.js";
import { anyString, PLAIN, spellInJson, stringOfRun } from "./json-string.js";
import type { Language, Languages } from "./language.js";
import { patternExpression, spelled, WRITABLE } from "./pattern-expression.js";
import { patternLanguage } from "./pattern-language.js";
import { type CharacterRun, characterRun, hasAssertions, regexTree } from "./regex.js";

export interface StringRules {
  readonly min: number;
  readonly max: number | undefined;
  /** Patterns that must all match somewhere in the string. */
  readonly patterns: readonly string[];
  /** Known formats only. */
  readonly formats: readonly string[];
}

const QUOTE = literal('"');
/** Undefined: no string satisfies all rules. */
export function stringExpression(
  writer: GrammarWriter,
  languages: () => Languages,
  rules: StringRules,
): string | undefined {
  const { min, max, patterns, formats } = rules;
  if (patterns.length + formats.length === 0) return anyString(writer, min, max);
  if (patterns.length === 1 && formats.length === 0) {
    const run = characterRun(regexTree(patterns[0]!));
    if (run !== undefined) {
      const together = withLengths(run, min, max);
      return together === undefined ? undefined : stringOfRun(writer, together);
    }
    if (min === 0 && max === undefined) {
      const written = patternExpression(writer, patterns[0]!, { isInJson: true, isSearch: true, end: QUOTE });
      return written === undefined ? undefined : writer.rule(`${QUOTE} ${written}`);
    }
  }
  if (patterns.length === 0 && formats.length === 1 && min === 0 && max === undefined) {
    const written = patternExpression(writer, FORMATS.get(formats[0]!)!, {
      isInJson: true,
      isSearch: false,
      end: QUOTE,
    });
    return written === undefined ? undefined : writer.rule(`${QUOTE} ${written}`);
  }
  const automaton = automatonUnder(languages(), rules);
  return automaton === undefined ? undefined : stringOfAutomaton(writer, automaton);
}

/** Upper limits for unbounded repetitions, tried in turn if counting all lengths would take too many states. */
const FEWER_ROUNDS = [128, 32, 8];

/** The limit for counting lengths, in states times characters. */
const MAX_COUNTED = 12_000;

function automatonUnder(languages: Languages, rules: StringRules): Automaton<CharacterSet> | undefined {
  const { min, max, patterns } = rules;
  const free = automatonOf(languages, languageOf(languages, rules), WRITABLE);
  if (free === undefined || keepsLengths(free, rules)) return free;
  const isEndless = max !== undefined && !patterns.some((pattern) => hasAssertions(regexTree(pattern)));
  if (isEndless && free.length * max > MAX_COUNTED) {
    for (const mostRounds of FEWER_ROUNDS) {
      const fewer = automatonOf(languages, languageOf(languages, rules, mostRounds), WRITABLE);
      if (fewer !== undefined && keepsLengths(fewer, rules)) return fewer;
    }
  }
  const counted = languages.repeat(languages.anyCharacter, min, max ?? Number.POSITIVE_INFINITY);
  return automatonOf(languages, languages.both(languageOf(languages, rules), counted), WRITABLE);
}

function withLengths(run: CharacterRun, min: number, max: number | undefined): CharacterRun | undefined {
  const least = Math.max(run.min, min);
  const most = Math.min(run.max ?? Number.POSITIVE_INFINITY, max ?? Number.POSITIVE_INFINITY);
  if (least > most) return undefined;
  return { set: run.set, min: least, max: most === Number.POSITIVE_INFINITY ? undefined : most };
}

/** The language of the strings that satisfy the patterns and formats, whatever their length. */
function languageOf(languages: Languages, { patterns, formats }: StringRules, mostRounds?: number): Language {
  return languages.both(
    ...patterns.map((pattern) => patternLanguage(languages, pattern, true, mostRounds)),
    ...formats.map((format) => patternLanguage(languages, FORMATS.get(format)!, false, mostRounds)),
  );
}

/**
 * Whether every string of the automaton has an allowed length. Counting is then skipped, because each count would be a
 * separate state.
 */
function keepsLengths(automaton: Automaton<CharacterSet>, { min, max }: Pick<StringRules, "min" | "max">): boolean {
  const { least, most } = lengthsOf(automaton);
  return least >= min && most <= (max ?? Number.POSITIVE_INFINITY);
}

function lengthsOf(automaton: Automaton<CharacterSet>): { readonly least: number; readonly most: number } {
  let level = new Set([0]);
  let least: number | undefined;
  for (let length = 0; length <= automaton.length; length++) {
    if (least === undefined && [...level].some((state) => automaton[state]!.isFinal)) least = length;
    const next = new Set([...level].flatMap((state) => automaton[state]!.edges.map(({ to }) => to)));
    if (next.size === 0) return { least: least ?? length, most: length };
    level = next;
  }
  // More steps than states mean a cycle, so the length is unbounded.
  return { least: least ?? 0, most: Number.POSITIVE_INFINITY };
}

function stringOfAutomaton(writer: GrammarWriter, automaton: Automaton<CharacterSet>): string {
  return writer.rule(`${QUOTE} ${automatonExpression(writer, automaton, spelled(writer, spellInJson), QUOTE)}`);
}

/** A set of property names, which are written without escapes. */
export class NameSet {
  constructor(
    private readonly languages: Languages,
    readonly language: Language,
  ) {}

  static all(languages: Languages): NameSet {
    return new NameSet(languages, languages.anything);
  }

  static of(languages: Languages, names: readonly string[]): NameSet {
    return new NameSet(languages, languages.either(...names.map((name) => languages.text(name))));
  }

  static under(languages: Languages, rules: StringRules): NameSet {
    const counted = languages.repeat(languages.anyCharacter, rules.min, rules.max ?? Number.POSITIVE_INFINITY);
    return new NameSet(languages, languages.both(languageOf(languages, rules), counted));
  }

  static either(languages: Languages, sets: readonly NameSet[]): NameSet {
    return new NameSet(languages, languages.either(...sets.map(({ language }) => language)));
  }

  and(other: NameSet): NameSet {
    return new NameSet(this.languages, this.languages.both(this.language, other.language));
  }

  without(other: NameSet): NameSet {
    return new NameSet(this.languages, this.languages.both(this.language, this.languages.not(other.language)));
  }

  has(name: string): boolean {
    const one = this.and(NameSet.of(this.languages, [name]));
    const automaton = automatonOf(this.languages, one.language, WRITABLE);
    return automaton !== undefined && accepts(automaton, name);
  }

  /** Undefined: the set is empty. */
  expression(writer: GrammarWriter): string | undefined {
    const automaton = automatonOf(this.languages, this.language, PLAIN);
    return automaton === undefined ? undefined : stringOfAutomaton(writer, automaton);
  }
}
