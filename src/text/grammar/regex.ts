/** Regular expressions as JavaScript reads them (with the flag u), as far as a grammar can say the same. */
import { bytesOfSet, type CharacterRange, type CharacterSet, characterSet, complement } from "./character-set.js";
import { EMPTY, GrammarWriter, MAX_GRAMMAR_LENGTH, oneOf, repeat, sequence } from "./ebnf.js";

/** In UTF-16 units. */
export const MAX_PATTERN_LENGTH = 64 * 1024;
/** The reader calls itself for each group, and the grammar's compiler after it. */
const MAX_GROUP_DEPTH = 64;

/** Repetitions beyond this are refused: their grammars take too long to compile. */
export const MAX_REPETITIONS = 2000;

export class RegexError extends Error {}

const of = (characters: string): CharacterRange[] =>
  [...characters].map((character) => [character.codePointAt(0)!, character.codePointAt(0)!]);

const DIGITS = characterSet([[0x30, 0x39]]);
const WORDS = characterSet([[0x30, 0x39], [0x41, 0x5a], [0x61, 0x7a], ...of("_")]);
const SPACES = characterSet([...of("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), [0x2000, 0x200a]]);
const NOT_DOT = characterSet(of("\n\r\u2028\u2029"));
const CLASS_ESCAPES: Readonly<Record<string, CharacterSet>> = {
  d: DIGITS,
  D: complement(DIGITS),
  w: WORDS,
  W: complement(WORDS),
  s: SPACES,
  S: complement(SPACES),
};
const CONTROL_ESCAPES: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };

/** How a set of characters is spelled where the text stands. */
export type SpellSet = (set: CharacterSet) => string;

const spellPlainly: SpellSet = (set) => `(${bytesOfSet(set)})`;

/**
 * The texts that match, as an expression.
 * @param isSearch whether a match anywhere in the text will do, unless ^ and $ say otherwise
 */
export function regexExpression(pattern: string, spell: SpellSet, isSearch: boolean): string {
  return new RegexReader(pattern, spell, isSearch).read();
}

/** Characters of one set, and how many of them. */
export interface CharacterRun {
  readonly set: CharacterSet;
  readonly min: number;
  readonly max: number | undefined;
}

/** What a pattern of the form `^[set]{min,max}$` says; undefined: it is of another. */
export function characterRun(pattern: string): CharacterRun | undefined {
  return new RegexReader(pattern, spellPlainly, true).readRun();
}

/** The texts that match from end to end, as an expression. */
export function plainRegexExpression(pattern: string): string {
  return regexExpression(pattern, spellPlainly, false);
}

/** The texts that match from end to end. */
export function grammarOfRegex(pattern: string): string {
  return new GrammarWriter().text(plainRegexExpression(pattern));
}

const SPECIAL_CHARACTERS = "[.^$\\{}*+?";

class RegexReader {
  readonly #characters: readonly string[];
  #at = 0;
  #groupDepth = 0;
  /** Of the sets as they are spelled. */
  #grammarLength = 0;
  /** Characters that stand for themselves, as they are spelled. */
  readonly #plain = new Map<string, string>();

  constructor(
    private readonly pattern: string,
    private readonly spell: SpellSet,
    private readonly isSearch: boolean,
  ) {
    if (pattern.length > MAX_PATTERN_LENGTH) {
      throw new RegexError(`expected a pattern of at most ${MAX_PATTERN_LENGTH} characters, got ${pattern.length}`);
    }
    try {
      new RegExp(pattern, "u");
    } catch (thrown) {
      // V8 quotes the whole pattern before its reason.
      const reason = String(thrown).split(": ").at(-1)!;
      throw new RegexError(`expected a regular expression, got ${shown(pattern)}: ${reason}`);
    }
    this.#characters = [...pattern];
  }

  read(): string {
    const alternatives = this.#alternatives(true);
    if (this.#peek() !== undefined) this.#refuse("a closing parenthesis that was opened");
    return alternatives;
  }

  readRun(): CharacterRun | undefined {
    if (!this.#take("^") || "($|".includes(this.#peek() ?? "$")) return undefined;
    const set = this.#set(this.#next());
    const [min, max] = this.#quantifier();
    return this.#take("$") && this.#peek() === undefined ? { set, min, max } : undefined;
  }

  #alternatives(isTop: boolean): string {
    const alternatives = [this.#sequence(isTop)];
    while (this.#take("|")) alternatives.push(this.#sequence(isTop));
    return oneOf(alternatives);
  }

  #sequence(isTop: boolean): string {
    const isAnchored = isTop && this.#take("^");
    const parts: string[] = [];
    let isEnded = false;
    for (let next = this.#peek(); next !== undefined && next !== "|" && next !== ")"; next = this.#peek()) {
      if (next === "$" && isTop) {
        this.#at++;
        isEnded = true;
        const after = this.#peek();
        if (after !== undefined && after !== "|") this.#refuse("$ at the end");
        break;
      }
      parts.push(this.#quantified());
    }
    if (!isTop || !this.isSearch) return sequence(...parts);
    const anything = repeat(this.#spelled(complement([])), 0, undefined);
    return sequence(isAnchored ? EMPTY : anything, ...parts, isEnded ? EMPTY : anything);
  }

  #quantified(): string {
    const atom = this.#atom();
    const [min, max] = this.#quantifier();
    return repeat(atom, min, max);
  }

  #quantifier(): readonly [min: number, max: number | undefined] {
    const rest = this.#characters.slice(this.#at, this.#at + 24).join("");
    const match = /^(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/.exec(rest);
    if (match === null) return [1, 1];
    this.#at += match[0].length;
    const [, sign, from, comma, to] = match;
    if (sign !== undefined) return sign === "?" ? [0, 1] : [sign === "+" ? 1 : 0, undefined];
    const min = Number(from);
    const max = to !== "" ? Number(to) : comma === "" ? min : undefined;
    if (Math.max(min, max ?? 0) > MAX_REPETITIONS) this.#refuse(`at most ${MAX_REPETITIONS} repetitions`);
    return [min, max];
  }

  #atom(): string {
    const character = this.#next();
    if (character === "(") return this.#group();
    if (SPECIAL_CHARACTERS.includes(character)) return this.#spelled(this.#set(character));
    const known = this.#plain.get(character);
    if (known !== undefined) return this.#counted(known);
    const spelled = this.#spelled(this.#set(character));
    this.#plain.set(character, spelled);
    return spelled;
  }

  #spelled(set: CharacterSet): string {
    return this.#counted(this.spell(set));
  }

  #counted(text: string): string {
    this.#grammarLength += text.length;
    if (this.#grammarLength > MAX_GRAMMAR_LENGTH) {
      this.#refuse(`a pattern whose grammar has at most ${MAX_GRAMMAR_LENGTH} characters`);
    }
    return text;
  }

  #set(first: string): CharacterSet {
    switch (first) {
      case "[":
        return this.#nonEmpty(this.#class());
      case ".":
        return complement(NOT_DOT);
      case "^":
      case "$":
        return this.#refuse("^ and $ at the ends only");
      case "\\":
        return this.#escape();
      case "{":
      case "}":
      case "*":
      case "+":
      case "?":
        return this.#refuse(`a repetition of something, in few digits, in place of ${first}`);
      default:
        return this.#nonEmpty(characterSet(of(first)));
    }
  }

  #group(): string {
    if (++this.#groupDepth > MAX_GROUP_DEPTH) this.#refuse(`groups nested at most ${MAX_GROUP_DEPTH} deep`);
    if (this.#take("?") && !this.#take(":")) {
      if (!this.#take("<") || "=!".includes(this.#next())) this.#refuse("no lookaround");
      // The group's name.
      while (this.#next() !== ">");
    }
    const alternatives = this.#alternatives(false);
    if (!this.#take(")")) this.#refuse("a closing parenthesis");
    this.#groupDepth--;
    return alternatives;
  }

  /** After the opening bracket. */
  #class(): CharacterSet {
    const isNegated = this.#take("^");
    const ranges: CharacterRange[] = [];
    while (!this.#take("]")) {
      const first = this.#classMember();
      this.#nonEmpty(first);
      if (this.#peek() === "-" && this.#characters[this.#at + 1] !== "]" && first.length === 1) {
        this.#at++;
        const last = this.#nonEmpty(this.#classMember());
        ranges.push([first[0]![0], last.at(-1)![1]]);
      } else ranges.push(...first);
    }
    const set = characterSet(ranges);
    return isNegated ? complement(set) : set;
  }

  #classMember(): CharacterSet {
    const character = this.#next();
    if (character !== "\\") return characterSet(of(character));
    return this.#take("b") ? [[8, 8]] : this.#escape();
  }

  #nonEmpty(set: CharacterSet): CharacterSet {
    if (set.length === 0) this.#refuse("a class that has characters");
    return set;
  }

  /** After the backslash. */
  #escape(): CharacterSet {
    const character = this.#next();
    const known = Object.hasOwn(CLASS_ESCAPES, character) ? CLASS_ESCAPES[character] : undefined;
    if (known !== undefined) return known;
    const control = Object.hasOwn(CONTROL_ESCAPES, character) ? CONTROL_ESCAPES[character] : undefined;
    if (control !== undefined) return [[control, control]];
    const rest = this.#characters.slice(this.#at, this.#at + 12).join("");
    const code = character === "x" ? /^([0-9a-f]{2})/i.exec(rest) : /^(?:([0-9a-f]{4})|\{([0-9a-f]+)\})/i.exec(rest);
    if ((character === "x" || character === "u") && code !== null) {
      this.#at += code[0].length;
      const value = Number.parseInt(code[1] ?? code[2]!, 16);
      return this.#nonEmpty(characterSet([[value, value]]));
    }
    if (/[a-z0-9]/i.test(character)) this.#refuse(`no \\${character}`);
    return characterSet(of(character));
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #next(): string {
    return this.#characters[this.#at++] ?? this.#refuse("more");
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }

  #refuse(expected: string): never {
    throw new RegexError(`expected ${expected} at character ${this.#at}, got ${shown(this.pattern)}`);
  }
}

/** Patterns come from the client and are sent back, so a long one is cut. */
function shown(pattern: string): string {
  return JSON.stringify(pattern.length <= 200 ? pattern : `${pattern.slice(0, 197)}...`);
}
