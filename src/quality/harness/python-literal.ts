/**
 * Parses Python literals, because templates of lm-evaluation-harness print lists in this form: texts, numbers, True,
 * False, None, lists and tuples.
 */

const TOKEN = /\s*(?:([[\](),])|('(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*")|([^\s[\](),'"]+))/y;
const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["True", true],
  ["False", false],
  ["None", null],
]);
const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  a: "\x07",
  "0": "\0",
  "\n": "",
};
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))/g;
const MAX_DEPTH = 100;

/** Undefined for any other text. @example pythonLiteral("['a', 1]")?.value // ["a", 1] */
export function pythonLiteral(text: string): { readonly value: unknown } | undefined {
  try {
    const reader = new Reader(text);
    const value = reader.value(0);
    return reader.isAtEnd ? { value } : undefined;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}

class Reader {
  readonly #tokens: readonly RegExpExecArray[];
  #at = 0;

  constructor(text: string) {
    const tokens: RegExpExecArray[] = [];
    TOKEN.lastIndex = 0;
    while (text.slice(TOKEN.lastIndex).trim() !== "") {
      const found = TOKEN.exec(text);
      if (found === null) throw new SyntaxError("no literal");
      tokens.push(found);
    }
    this.#tokens = tokens;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#tokens.length;
  }

  value(depth: number): unknown {
    const [, mark, quoted, word] = this.#tokens[this.#at++] ?? [];
    if (quoted !== undefined) return this.#joined(unquoted(quoted));
    if (word !== undefined) return wordValue(word);
    if (mark === "[") return this.#items("]", depth).items;
    if (mark !== "(") throw new SyntaxError("no literal");
    // Parentheses around one value without a comma are not a tuple.
    const { items, numCommas } = this.#items(")", depth);
    return items.length === 1 && numCommas === 0 ? items[0] : items;
  }

  /** Adjacent texts form one. */
  #joined(text: string): string {
    for (;;) {
      const quoted = this.#tokens[this.#at]?.[2];
      if (quoted === undefined) return text;
      text += unquoted(quoted);
      this.#at++;
    }
  }

  #items(end: string, depth: number): { items: unknown[]; numCommas: number } {
    if (depth > MAX_DEPTH) throw new SyntaxError("too deep");
    const items: unknown[] = [];
    let numCommas = 0;
    for (;;) {
      if (this.#takes(end)) return { items, numCommas };
      items.push(this.value(depth + 1));
      if (this.#takes(",")) numCommas++;
      else if (this.#takes(end)) return { items, numCommas };
      else throw new SyntaxError("no literal");
    }
  }

  #takes(mark: string): boolean {
    if (this.#tokens[this.#at]?.[1] !== mark) return false;
    this.#at++;
    return true;
  }
}

function unquoted(quoted: string): string {
  return quoted.slice(1, -1).replace(ESCAPE, (whole, two, four, eight, other) => {
    const code: string | undefined = two ?? four ?? eight;
    if (code === undefined) return ESCAPES[other] ?? (/["'\\]/.test(other) ? other : whole);
    const point = Number.parseInt(code, 16);
    if (point > 0x10_ffff) throw new SyntaxError("no character");
    return String.fromCodePoint(point);
  });
}

function wordValue(word: string): unknown {
  if (WORDS.has(word)) return WORDS.get(word);
  if (!/^[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(word)) throw new SyntaxError("no literal");
  return Number(word.replaceAll("_", ""));
}
