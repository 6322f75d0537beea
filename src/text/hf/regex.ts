/**
 * Translates the regular expressions of tokenizer.json from Oniguruma's Ruby syntax to JavaScript's.
 *
 * Differences: Oniguruma's `\s` is Unicode's White_Space; its `^`, `$` and `.` only recognise the line feed; `(?i:…)`
 * is expanded, with the two letters outside ASCII that fold into it; a possessive quantifier becomes a look-ahead and a
 * back-reference to its match. Other constructs are refused, because a wrong guess would only show as wrong tokens.
 */
import { MillraceError } from "../../core/errors.js";
import { PRE_TOKENIZERS } from "../tokenizer/pre-tokenizer-table.js";

const CASE_VARIANTS: Readonly<Record<string, string>> = { s: "\u017f", k: "\u212a" };
const CATEGORY = /^(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfson]?)$/;
const SCRIPTS = new Set([
  "Han",
  "Hiragana",
  "Katakana",
  "Hangul",
  "Thai",
  "Latin",
  "Cyrillic",
  "Greek",
  "Arabic",
  "Hebrew",
]);
const MAX_PATTERN_LENGTH = 16_384;
/** Most groups and classes within each other: more would exhaust the stack, and published patterns have few. */
const MAX_DEPTH = 100;

/**
 * The expressions of llama.cpp's pre-tokenizers in the syntax of tokenizer.json: white space as `\s`, characters
 * unchanged.
 */
export function onigurumaOf(source: string): string {
  return source
    .replaceAll("(?<!\\p{White_Space})\\p{White_Space}+$", "\\p{White_Space}+$")
    .replaceAll("\\p{White_Space}", "\\s")
    .replaceAll("\\P{White_Space}", "\\S")
    .replaceAll("{Script=", "{")
    .replaceAll("\\/", "/")
    .replace(/\\u\{([0-9a-f]+)\}|\\u([0-9a-f]{4})|\\x([0-9a-f]{2})/gi, (_, long, four, two) =>
      String.fromCodePoint(Number.parseInt(long ?? four ?? two, 16)),
    );
}

/** Spells contractions in both cases, like llama.cpp's table and tokenizer.json files. */
const CONTRACTIONS = "'(?:[sS\u017ftTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])";
const FILES_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";

/** XLM-RoBERTa's expression: runs of spaces, in one pass. */
const RUNS_OF_SPACES = " {2,}";

/**
 * The published expressions, translated. Their time is bounded: at most quadratic in a text's longest run of spaces or
 * letters.
 */
let known: ReadonlySet<string> | undefined;

/**
 * Whether published models use this expression of a tokenizer.json.
 * @throws as `translateRegex` does
 */
export function isKnownRegex(pattern: string): boolean {
  known ??= new Set([
    translateRegex(RUNS_OF_SPACES).source,
    ...[...PRE_TOKENIZERS.values()].flatMap(({ expressions }) =>
      expressions.flatMap(({ source }) => {
        const written = onigurumaOf(source);
        const inFiles = written
          .replaceAll(`(?:${CONTRACTIONS})?`, `${FILES_CONTRACTIONS}?`)
          .replaceAll(CONTRACTIONS, FILES_CONTRACTIONS);
        return [written, inFiles].map((each) => translateRegex(each).source);
      }),
    ),
  ]);
  return known.has(translateRegex(pattern).source);
}

/** @example translateRegex("\\s+(?!\\S)") // /\p{White_Space}+(?!\P{White_Space})/gu */
export function translateRegex(pattern: string): RegExp {
  if (pattern.length > MAX_PATTERN_LENGTH) {
    throw unsupported(`expected a pattern of at most ${MAX_PATTERN_LENGTH} characters, got ${pattern.length}`);
  }
  const translated = new Translator(pattern).translate();
  // The look-behind avoids an attempt at every space of a long run that does not end the text; the matches stay the
  // same.
  const source = pattern === "\\s+$" ? `(?<!\\p{White_Space})${translated}` : translated;
  try {
    return new RegExp(source, "gu");
  } catch (cause) {
    throw unsupported(`expected a regular expression, got ${JSON.stringify(pattern)}`, cause);
  }
}

/** A literal character, inside and outside classes. */
export function literal(char: string): string {
  return /[\p{L}\p{N}]/u.test(char) ? char : `\\u{${char.codePointAt(0)!.toString(16)}}`;
}

class Translator {
  readonly #chars: readonly string[];
  #at = 0;
  #ignoresCase = false;
  #numPossessive = 0;
  #depth = 0;

  constructor(private readonly pattern: string) {
    this.#chars = [...pattern];
  }

  translate(): string {
    const source = this.#alternatives();
    if (this.#at < this.#chars.length) throw this.#refuse("an unmatched )");
    return source;
  }

  #alternatives(): string {
    let source = "";
    while (this.#at < this.#chars.length && this.#chars[this.#at] !== ")") {
      if (this.#take("|")) source += "|";
      else source += this.#quantified(this.#atom());
    }
    return source;
  }

  #quantified(atom: string): string {
    const quantifier = this.#quantifier();
    if (quantifier === "") return atom;
    if (this.#take("?")) return `${atom}${quantifier}?`;
    if (this.#chars[this.#at] !== "+") return `${atom}${quantifier}`;
    // In Oniguruma, a plus after {n,m} is a second quantifier.
    if (quantifier.startsWith("{")) throw this.#refuse("a + after {}");
    this.#at++;
    return this.#atomic(`${atom}${quantifier}`);
  }

  #quantifier(): string {
    for (const sign of ["?", "*", "+"]) if (this.#take(sign)) return sign;
    const rest = this.#chars.slice(this.#at, this.#at + 16).join("");
    const bounds = /^\{(?:\d+(?:,\d*)?|,\d+)\}/.exec(rest)?.[0] ?? "";
    // A longer number does not end within these characters, and would be read as text.
    if (bounds === "" && /^\{[\d,]/.test(rest)) throw this.#refuse("a { with a number that is no repetition");
    this.#at += bounds.length;
    // In Oniguruma {,n} means {0,n}; in JavaScript it would be literal text.
    return bounds.replace("{,", "{0,");
  }

  #atomic(inner: string): string {
    const name = `p${this.#numPossessive++}`;
    return `(?:(?=(?<${name}>${inner}))\\k<${name}>)`;
  }

  #atom(): string {
    const char = this.#next();
    switch (char) {
      case "(":
        return this.#group();
      case "[":
        return this.#class();
      case "\\":
        return this.#wrapCase(this.#escape());
      case ".":
        return "[^\\n]";
      case "^":
        return "(?<![^\\n])";
      case "$":
        return "(?![^\\n])";
      case "?":
      case "*":
      case "+":
        throw this.#refuse(`${char} after nothing`);
      default:
        return this.#wrapCase(literal(char));
    }
  }

  /** A literal; where case is ignored, a class of both cases. */
  #wrapCase(source: string): string {
    const variants = this.#caseVariants(source);
    return variants === source ? source : `[${variants}]`;
  }

  #caseVariants(source: string): string {
    if (!this.#ignoresCase || source.length !== 1) return source;
    const [lower, upper] = [source.toLowerCase(), source.toUpperCase()];
    if (lower.length > 1 || upper.length > 1) throw this.#refuse(`${source}, whose other case is several letters`);
    return lower === upper ? source : `${lower}${upper}${CASE_VARIANTS[lower] ?? ""}`;
  }

  #group(): string {
    const ignoredCase = this.#ignoresCase;
    let open = "(?:";
    let isAtomic = false;
    if (this.#take("?")) {
      const kind = /^(?::|=|!|<=|<!|>|i:|<[A-Za-z]\w*>)/.exec(this.#chars.slice(this.#at, this.#at + 40).join(""))?.[0];
      if (kind === undefined) throw this.#refuse("a group of this kind");
      this.#at += kind.length;
      if (kind === "i:") this.#ignoresCase = true;
      else if (kind === ">") isAtomic = true;
      else if (/^<?[=!]$/.test(kind)) open = `(?${kind}`;
    }
    const inner = this.#nested(() => this.#alternatives());
    if (!this.#take(")")) throw this.#refuse("an unmatched (");
    this.#ignoresCase = ignoredCase;
    return isAtomic ? this.#atomic(inner) : `${open}${inner})`;
  }

  #nested(read: () => string): string {
    if (++this.#depth > MAX_DEPTH) throw this.#refuse(`more than ${MAX_DEPTH} groups and classes within each other`);
    const source = read();
    this.#depth--;
    return source;
  }

  #class(): string {
    const open = this.#take("^") ? "[^" : "[";
    return `${open}${this.#classItems()}]`;
  }

  #classItems(): string {
    // A closing bracket at the start of a class is a literal.
    let source = this.#take("]") ? "\\]" : "";
    while (!this.#take("]")) {
      const char = this.#next();
      const follows = this.#chars[this.#at] ?? "";
      if (char === "&" && follows === "&") throw this.#refuse("an intersection of classes");
      if (char === "[") {
        if (follows === "^" || follows === ":") throw this.#refuse(`[${follows} within a class`);
        // A class within a class adds its characters (BLOOM's has one).
        source += this.#nested(() => this.#classItems());
        continue;
      }
      const item = char === "\\" ? this.#escape() : literal(char);
      const isRange = this.#chars[this.#at] === "-" && this.#chars[this.#at + 1] !== "]";
      if (!isRange) {
        source += this.#caseVariants(item);
        continue;
      }
      this.#at++;
      const last = this.#next();
      const end = last === "\\" ? this.#escape() : literal(last);
      const range = `${item}-${end}`;
      source += this.#ignoresCase && /^[a-z]-[a-z]$/i.test(range) ? this.#caseRange(range) : range;
    }
    return source;
  }

  #caseRange(range: string): string {
    const lower = range.toLowerCase();
    const extra = Object.entries(CASE_VARIANTS).filter(([letter]) => letter >= lower[0]! && letter <= lower[2]!);
    return `${lower}${range.toUpperCase()}${extra.map(([, variant]) => variant).join("")}`;
  }

  /** The translation of an escape, in a form that is also valid inside a class. */
  #escape(): string {
    const char = this.#next();
    const fixed: Readonly<Record<string, string>> = {
      s: "\\p{White_Space}",
      S: "\\P{White_Space}",
      d: "\\p{Nd}",
      D: "\\P{Nd}",
      r: "\\r",
      n: "\\n",
      t: "\\t",
      f: "\\f",
      v: "\\v",
    };
    if (Object.hasOwn(fixed, char)) return fixed[char]!;
    if (char === "p" || char === "P") return this.#property(char);
    if (char === "x" || char === "u") return this.#codePoint(char);
    if (/[A-Za-z0-9]/.test(char)) throw this.#refuse(`\\${char}`);
    return literal(char);
  }

  #property(letter: string): string {
    const name = /^\{([A-Za-z_]+)\}/.exec(this.#chars.slice(this.#at, this.#at + 40).join(""))?.[1];
    if (name === undefined) throw this.#refuse(`\\${letter} without a name`);
    this.#at += name.length + 2;
    if (CATEGORY.test(name)) return `\\${letter}{${name}}`;
    if (SCRIPTS.has(name)) return `\\${letter}{Script=${name}}`;
    throw this.#refuse(`\\${letter}{${name}}`);
  }

  #codePoint(letter: string): string {
    const rest = this.#chars.slice(this.#at, this.#at + 10).join("");
    const match =
      letter === "u" ? /^([0-9A-Fa-f]{4})/.exec(rest) : /^(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))/.exec(rest);
    if (match === null) throw this.#refuse(`\\${letter} without a number`);
    this.#at += match[0].length;
    const code = Number.parseInt(match[1] ?? match[2]!, 16);
    if (code > 0x10ffff) throw this.#refuse("a code point above 10FFFF");
    return literal(String.fromCodePoint(code));
  }

  #take(char: string): boolean {
    if (this.#chars[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #next(): string {
    const char = this.#chars[this.#at++];
    if (char === undefined) throw this.#refuse("an end too early");
    return char;
  }

  #refuse(got: string): MillraceError {
    return unsupported(
      `expected a regular expression that can be translated, got ${got} in ${JSON.stringify(this.pattern)}`,
    );
  }
}

function unsupported(message: string, cause?: unknown): MillraceError {
  return new MillraceError("tokenizer_unsupported", `tokenizer.json: ${message}`, {
    hint: "Use a GGUF file of this model, whose tokenizer is described by name.",
    cause,
  });
}
