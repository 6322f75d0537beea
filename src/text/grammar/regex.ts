/** Regular expressions in JavaScript's syntax (with the flag u), as far as a grammar can express them. */
import { type CharacterRange, type CharacterSet, characterSet, complement } from "./character-set.js";
import { EMPTY, MAX_GRAMMAR_LENGTH, oneOf, repeat, sequence } from "./ebnf.js";
import { unicodeSet } from "./unicode-set.js";

/** The limit in UTF-16 units. */
export const MAX_PATTERN_LENGTH = 64 * 1024;
/** The limit for Unicode properties in one pattern, because each lookup goes through all characters. */
const MAX_PROPERTIES = 8;
/** The limit for nested groups, because the parser and the grammar's compiler recurse for each. */
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

/** Nodes of a parsed pattern. `at` is the position in the pattern, for error messages. */
export type RegexTree =
  | { readonly kind: "set"; readonly set: CharacterSet }
  | { readonly kind: "sequence"; readonly parts: readonly RegexTree[] }
  | { readonly kind: "alternatives"; readonly parts: readonly RegexTree[] }
  | { readonly kind: "repeat"; readonly part: RegexTree; readonly min: number; readonly max: number | undefined }
  | { readonly kind: "start" | "end"; readonly at: number }
  | { readonly kind: "ahead"; readonly part: RegexTree; readonly isNegated: boolean; readonly at: number };

/** Spells a set of characters in the context of the text, for example inside JSON quotes. */
export type SpellSet = (set: CharacterSet) => string;

/**
 * The expression of the texts that match.
 * @param isSearch whether a match anywhere in the text suffices, unless ^ or $ anchor it
 */
export function regexExpression(pattern: string, spell: SpellSet, isSearch: boolean): string {
  return new RegexWriter(pattern, spell, isSearch).write(regexTree(pattern));
}

export function regexTree(pattern: string): RegexTree {
  return new RegexReader(pattern).read();
}

/** Whether the pattern has look-aheads, or anchors in its middle. Only an automaton can express these. */
export function hasAssertions(tree: RegexTree): boolean {
  const alternatives = tree.kind === "alternatives" ? tree.parts : [tree];
  return alternatives.some((each) => holdsAssertion(withoutAnchors(each).part));
}

function holdsAssertion(tree: RegexTree): boolean {
  if (tree.kind === "sequence" || tree.kind === "alternatives") return tree.parts.some(holdsAssertion);
  return tree.kind === "repeat" ? holdsAssertion(tree.part) : tree.kind !== "set";
}

/** Splits an alternative of a pattern into its anchors and the part between ^ and $. */
function withoutAnchors(tree: RegexTree) {
  const parts = tree.kind === "sequence" ? tree.parts : [tree];
  const isStarted = parts[0]?.kind === "start";
  const rest = isStarted ? parts.slice(1) : parts;
  const isEnded = rest.at(-1)?.kind === "end";
  const part: RegexTree = { kind: "sequence", parts: isEnded ? rest.slice(0, -1) : rest };
  return { part, isStarted, isEnded };
}

/** A repetition of characters from one set. */
export interface CharacterRun {
  readonly set: CharacterSet;
  readonly min: number;
  readonly max: number | undefined;
}

/** The set and bounds of a pattern of the form `^[set]{min,max}$`; undefined: the pattern has another form. */
export function characterRun(tree: RegexTree): CharacterRun | undefined {
  const { part, isStarted, isEnded } = withoutAnchors(tree);
  const [only, ...others] = part.kind === "sequence" ? part.parts : [];
  if (!isStarted || !isEnded || only === undefined || others.length > 0) return undefined;
  if (only.kind === "set") return { set: only.set, min: 1, max: 1 };
  if (only.kind !== "repeat" || only.part.kind !== "set") return undefined;
  return { set: only.part.set, min: only.min, max: only.max };
}

/** Converts a pattern's tree directly, so that repetitions stay repetitions. */
class RegexWriter {
  /** The total length of the spelled sets. */
  #grammarLength = 0;
  readonly #texts = new Map<CharacterSet, string>();

  constructor(
    private readonly pattern: string,
    private readonly spell: SpellSet,
    private readonly isSearch: boolean,
  ) {}

  write(tree: RegexTree): string {
    const alternatives = tree.kind === "alternatives" ? tree.parts : [tree];
    return oneOf(alternatives.map((each) => this.#alternative(each)));
  }

  #alternative(tree: RegexTree): string {
    const { part, isStarted, isEnded } = withoutAnchors(tree);
    const written = this.#part(part);
    if (!this.isSearch) return written;
    const anything = repeat(this.#spelled(complement([])), 0, undefined);
    return sequence(isStarted ? EMPTY : anything, written, isEnded ? EMPTY : anything);
  }

  #part(tree: RegexTree): string {
    switch (tree.kind) {
      case "set":
        return this.#spelled(tree.set);
      case "sequence":
        return sequence(...tree.parts.map((part) => this.#part(part)));
      case "alternatives":
        return oneOf(tree.parts.map((part) => this.#part(part)));
      case "repeat":
        return repeat(this.#part(tree.part), tree.min, tree.max);
      case "ahead":
        return refusePattern("no lookahead", tree.at, this.pattern);
      default:
        return refusePattern("^ and $ at the ends only", tree.at, this.pattern);
    }
  }

  #spelled(set: CharacterSet): string {
    const text = this.#texts.get(set) ?? this.spell(set);
    this.#texts.set(set, text);
    this.#grammarLength += text.length;
    if (this.#grammarLength > MAX_GRAMMAR_LENGTH) {
      const expected = `a pattern whose grammar has at most ${MAX_GRAMMAR_LENGTH} characters`;
      throw new RegexError(`expected ${expected}, got ${shown(this.pattern)}`);
    }
    return text;
  }
}

const SPECIAL_CHARACTERS = "[.^$\\{}*+?";

class RegexReader {
  readonly #characters: readonly string[];
  #at = 0;
  #groupDepth = 0;
  #numProperties = 0;
  /** Characters that can be written without escapes. */
  readonly #plain = new Map<string, RegexTree>();

  constructor(private readonly pattern: string) {
    if (pattern.length > MAX_PATTERN_LENGTH) {
      throw new RegexError(`expected a pattern of at most ${MAX_PATTERN_LENGTH} characters, got ${pattern.length}`);
    }
    try {
      new RegExp(pattern, "u");
    } catch (thrown) {
      // V8's message quotes the whole pattern before the reason, which the error leaves out.
      const reason = String(thrown).split(": ").at(-1)!;
      throw new RegexError(`expected a regular expression, got ${shown(pattern)}: ${reason}`);
    }
    this.#characters = [...pattern];
  }

  read(): RegexTree {
    const tree = this.#alternatives();
    if (this.#peek() !== undefined) this.#refuse("a closing parenthesis that was opened");
    return tree;
  }

  #alternatives(): RegexTree {
    const parts = [this.#sequence()];
    while (this.#take("|")) parts.push(this.#sequence());
    return parts.length === 1 ? parts[0]! : { kind: "alternatives", parts };
  }

  #sequence(): RegexTree {
    const parts: RegexTree[] = [];
    for (let next = this.#peek(); next !== undefined && next !== "|" && next !== ")"; next = this.#peek()) {
      parts.push(this.#quantified());
    }
    return parts.length === 1 ? parts[0]! : { kind: "sequence", parts };
  }

  #quantified(): RegexTree {
    const part = this.#atom();
    const [min, max] = this.#quantifier();
    return min === 1 && max === 1 ? part : { kind: "repeat", part, min, max };
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

  #atom(): RegexTree {
    const at = this.#at;
    const character = this.#next();
    if (character === "(") return this.#group(at);
    if (character === "^" || character === "$") return { kind: character === "^" ? "start" : "end", at };
    const known = this.#plain.get(character);
    if (known !== undefined) return known;
    const tree: RegexTree = { kind: "set", set: this.#set(character) };
    if (!SPECIAL_CHARACTERS.includes(character)) this.#plain.set(character, tree);
    return tree;
  }

  #set(first: string): CharacterSet {
    switch (first) {
      case "[":
        return this.#nonEmpty(this.#class());
      case ".":
        return complement(NOT_DOT);
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

  #group(at: number): RegexTree {
    if (++this.#groupDepth > MAX_GROUP_DEPTH) this.#refuse(`groups nested at most ${MAX_GROUP_DEPTH} deep`);
    let ahead: "=" | "!" | undefined;
    if (this.#take("?") && !this.#take(":")) {
      if (this.#take("=")) ahead = "=";
      else if (this.#take("!")) ahead = "!";
      else {
        if (!this.#take("<") || "=!".includes(this.#next())) this.#refuse("no lookbehind");
        // The group's name.
        while (this.#next() !== ">");
      }
    }
    const part = this.#alternatives();
    if (!this.#take(")")) this.#refuse("a closing parenthesis");
    this.#groupDepth--;
    return ahead === undefined ? part : { kind: "ahead", part, isNegated: ahead === "!", at };
  }

  /** Called after the opening bracket. */
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

  /** Called after the backslash. */
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
    if (character === "p" || character === "P") {
      const property = /^\{[^}]*\}/.exec(this.#characters.slice(this.#at, this.#at + 80).join(""))?.[0];
      if (property === undefined) this.#refuse("a short name of a property");
      this.#at += property.length;
      if (++this.#numProperties > MAX_PROPERTIES) this.#refuse(`at most ${MAX_PROPERTIES} properties`);
      return this.#nonEmpty(unicodeSet(`\\${character}${property}`));
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
    return refusePattern(expected, this.#at, this.pattern);
  }
}

function refusePattern(expected: string, at: number, pattern: string): never {
  throw new RegexError(`expected ${expected} at character ${at}, got ${shown(pattern)}`);
}

/** Patterns come from the client and are sent back, so a long one is cut. */
function shown(pattern: string): string {
  return JSON.stringify(pattern.length <= 200 ? pattern : `${pattern.slice(0, 197)}...`);
}
