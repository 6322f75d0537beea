/** Writes grammars in the grammar engine's EBNF, rule by rule. Expressions are strings that can stand anywhere a sequence's element can. */
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

/** Any of the texts, which are given up on as soon as they are longer together than a grammar can be. */
export function oneOfLiterals(texts: Iterable<string>): string {
  const distinct = new Set<string>();
  let length = 0;
  for (const text of texts) {
    if (distinct.has(text)) continue;
    distinct.add(text);
    length += text.length;
    if (length > MAX_GRAMMAR_LENGTH) throw tooLong();
  }
  return oneOf([...distinct].map(literal));
}

/** Any of the choices and nothing else. */
export function grammarOfChoices(choices: readonly string[]): string {
  return new GrammarWriter().text(oneOfLiterals(choices));
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
  /** By body, or by key: equal rules are one. */
  readonly #names = new Map<string, string>();
  #length = 0;

  /** A rule with this body; its name. */
  rule(body: string): string {
    if (isName(body)) return body;
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.define(name, body);
    this.#names.set(body, name);
    return name;
  }

  /** A rule that is the same each time and may come up again in its own body; its name. */
  recursiveRule(key: string, body: (name: string) => string): string {
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.#names.set(key, name);
    this.define(name, body(name));
    return name;
  }

  /** Runs `write`, and forgets the rules that it has written if it throws. */
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

  /** A name for a rule that is defined later, so that it can refer to itself. */
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

  /** The grammar whose start is this expression. */
  text(root: string): string {
    this.#assertFits(root.length);
    return `root ::= ${root}\n${this.#rules.join("")}`;
  }
}
