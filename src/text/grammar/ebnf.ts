/**
 * Writes grammars in the grammar engine's EBNF, rule by rule. Expressions are strings that can stand anywhere a
 * sequence's element can.
 */
import { MillraceError } from "../../core/errors.js";

/** A grammar longer than this takes too long to compile. */
export const MAX_GRAMMAR_LENGTH = 256 * 1024;

export const EMPTY = '""';

/** @example literal('say "hi"') // '"say \\"hi\\""' */
export function literal(text: string): string {
  const escaped = [...text].map((character) => {
    if (character === '"' || character === "\\") return `\\${character}`;
    const isPlain = character >= " " && character <= "~";
    return isPlain ? character : `\\U${character.codePointAt(0)!.toString(16).padStart(8, "0")}`;
  });
  return `"${escaped.join("")}"`;
}

export function sequence(...parts: readonly string[]): string {
  const present = parts.filter((part) => part !== EMPTY);
  return present.length === 0 ? EMPTY : present.length === 1 ? present[0]! : `(${present.join(" ")})`;
}

export function oneOf(alternatives: readonly string[]): string {
  const distinct = [...new Set(alternatives)];
  return distinct.length === 1 ? distinct[0]! : `(${distinct.join(" | ")})`;
}

/** @param max undefined: any number */
export function repeat(part: string, min: number, max: number | undefined): string {
  if (max === 0 || part === EMPTY) return EMPTY;
  if (min === 1 && max === 1) return part;
  if (min === 0 && max === 1) return `(${part})?`;
  if (max === undefined && min === 0) return `(${part})*`;
  return max === undefined ? `(${part}){${min},}` : `(${part}){${min},${max}}`;
}

/** Any of the texts. Reading stops as soon as their total length exceeds the limit for a grammar. */
export function oneOfLiterals(writer: GrammarWriter, texts: Iterable<string>): string {
  const distinct = new Set<string>();
  let length = 0;
  for (const text of texts) {
    if (distinct.has(text)) continue;
    distinct.add(text);
    length += text.length;
    if (length > MAX_GRAMMAR_LENGTH) throw tooLong();
  }
  return branches(writer, [...distinct].sort(), 0);
}

/**
 * The continuations of the sorted texts after the first `from` characters. Each branch is a separate rule, because the
 * grammar engine confuses some branches of one rule, and "0.25" | "0.5" | "0.75" would accept 0.225.
 */
function branches(writer: GrammarWriter, texts: readonly string[], from: number): string {
  if (texts.length === 1) return from === texts[0]!.length ? EMPTY : literal(texts[0]!.slice(from));
  const common = commonLength(texts[0]!, texts.at(-1)!);
  const ways: string[] = [];
  for (let first = 0; first < texts.length; ) {
    const text = texts[first]!;
    // Whole characters are split off, because half of a surrogate pair cannot be spelled.
    const size = text.length === common ? 0 : text.codePointAt(common)! > 0xffff ? 2 : 1;
    const begin = text.slice(0, common + size);
    let last = first + 1;
    while (size > 0 && last < texts.length && texts[last]!.startsWith(begin)) last++;
    const rest = branches(writer, texts.slice(first, last), begin.length);
    ways.push(size === 0 ? EMPTY : sequence(literal(begin.slice(common)), rest));
    first = last;
  }
  const way = writer.rule(oneOf(ways));
  return common === from ? way : sequence(literal(texts[0]!.slice(from, common)), way);
}

/** The length of the common prefix in UTF-16 units, without half of a surrogate pair. */
function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  const isHalf = length > 0 && /[\ud800-\udbff]/.test(a[length - 1]!);
  return isHalf ? length - 1 : length;
}

/** The grammar of exactly these choices. */
export function grammarOfChoices(choices: readonly string[]): string {
  const writer = new GrammarWriter();
  return writer.text(oneOfLiterals(writer, choices));
}

export function tooLong(): MillraceError {
  return new MillraceError(
    "invalid_grammar",
    `expected a grammar of at most ${MAX_GRAMMAR_LENGTH} characters, got more`,
    { hint: "Use fewer or shorter names, alternatives and ranges." },
  );
}

const isName = (body: string): boolean => /^r\d+$/.test(body);

export class GrammarWriter {
  readonly #rules: string[] = [];
  /** Names of the rules by body or key, so that equal rules are written once. */
  readonly #names = new Map<string, string>();
  #length = 0;

  /** Adds a rule with this body and returns its name. */
  rule(body: string): string {
    if (isName(body)) return body;
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.define(name, body);
    this.#names.set(body, name);
    return name;
  }

  /** Adds a rule once per key and returns its name; the rule may refer to itself. */
  recursiveRule(key: string, body: (name: string) => string): string {
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.#names.set(key, name);
    this.define(name, body(name));
    return name;
  }

  /** Runs `write`; if it throws, removes the rules that it added. */
  attempt<T>(write: () => T): T {
    const [numRules, length] = [this.#rules.length, this.#length];
    try {
      return write();
    } catch (thrown) {
      this.#rules.length = numRules;
      this.#length = length;
      for (const [body, name] of this.#names) if (Number(name.slice(1)) >= numRules) this.#names.delete(body);
      throw thrown;
    }
  }

  /** Reserves the name of a rule that is defined later, so that the rule can refer to itself. */
  reserve(): string {
    return `r${this.#rules.push("") - 1}`;
  }

  define(name: string, body: string): void {
    const line = `${name} ::= ${body}\n`;
    this.#length += line.length;
    this.#assertFits(0);
    this.#rules[Number(name.slice(1))] = line;
  }

  #assertFits(more: number): void {
    if (this.#length + more > MAX_GRAMMAR_LENGTH) throw tooLong();
  }

  /** The text of the grammar that starts with this expression. */
  text(root: string): string {
    this.#assertFits(root.length);
    return `root ::= ${root}\n${this.#rules.join("")}`;
  }
}
