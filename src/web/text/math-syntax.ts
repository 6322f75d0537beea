/**
 * Finds mathematics in markdown: \( \), and \[ \] and $$ $$ on their own lines. Within a line these and $ $ count only
 * where their content cannot be a price, a shell variable or a bracket that markdown escapes.
 */
import type { MarkedExtension, TokenizerExtension, Tokens } from "marked";

export interface MathToken extends Tokens.Generic {
  readonly type: "math";
  readonly raw: string;
  readonly source: string;
  readonly isDisplay: boolean;
}

/** Longer texts are not formulas. */
const MOST_CHARACTERS = 3000;

const CLOSERS: Readonly<Record<string, string>> = { "\\(": "\\)", "\\[": "\\]", $$: "$$", $: "$" };
const BLANK_LINE = /\n[ \t]*\n/;

function mathAt(text: string, opener: string): MathToken | undefined {
  const closer = CLOSERS[opener]!;
  const near = text.slice(opener.length, opener.length + MOST_CHARACTERS);
  const end = near.indexOf(closer);
  const source = near.slice(0, end);
  // As in TeX, a blank line ends a formula.
  if (end < 0 || source.trim() === "" || BLANK_LINE.test(source)) return undefined;
  const raw = text.slice(0, opener.length + end + closer.length);
  return { type: "math", raw, source, isDisplay: opener === "\\[" || opener === "$$" };
}

/** $a_1$ and $x$ are mathematics; $5 and $10, $HOME/$USER are not. */
function isUnmistakable({ raw, source, isDisplay }: MathToken, before: string, text: string): boolean {
  const after = text.slice(raw.length, raw.length + 1);
  if (/[\w$\\]$/.test(before) || /[\w$]/.test(after)) return false;
  // \[a\](b) is an escaped link.
  if (after === "(" && raw.endsWith("]")) return false;
  const formula = isDisplay ? source.trim() : source;
  if (!isDisplay && !/^\S$|^\S[^\n]*\S$/.test(formula)) return false;
  return /[\\^_=]/.test(formula) || /^[a-z]$/i.test(formula);
}

const inlineMath: TokenizerExtension = {
  name: "math",
  level: "inline",
  // Markdown's text ends at every backslash anyway.
  start: (text) => text.indexOf("$"),
  tokenizer(text, tokens) {
    const opener = /^(?:\\[([]|\$\$?)/.exec(text)?.[0];
    const token = opener === undefined ? undefined : mathAt(text, opener);
    if (token === undefined || opener === "\\(") return token;
    return isUnmistakable(token, tokens.at(-1)?.raw ?? "", text) ? token : undefined;
  },
};

/** Start of the next formula within the paragraph; undefined: there is none. */
function blockStart(text: string): number | undefined {
  const near = text.slice(0, MOST_CHARACTERS);
  const end = near.indexOf("\n\n");
  const place = (end < 0 ? near : near.slice(0, end)).search(/\n {0,3}(?:\$\$|\\\[)/);
  return place < 0 ? undefined : place + 1;
}

/** Formulas on their own lines; lines within a formula start no lists or headings. */
const blockMath: TokenizerExtension = {
  name: "math",
  level: "block",
  start: blockStart,
  tokenizer(text) {
    const [opening, indent = "", opener] = /^( {0,3})(\$\$|\\\[)/.exec(text) ?? [];
    if (opening === undefined || opener === undefined) return undefined;
    const token = mathAt(text.slice(indent.length), opener);
    if (token !== undefined) {
      const rest = text.slice(indent.length + token.raw.length, indent.length + token.raw.length + MOST_CHARACTERS);
      const lineEnd = /^[ \t]*(?:\n|$)/.exec(rest)?.[0];
      return lineEnd === undefined ? undefined : { ...token, raw: indent + token.raw + lineEnd };
    }
    // The formula's end may still arrive: until then the formula is one block.
    if (text.length > MOST_CHARACTERS || BLANK_LINE.test(text) || text.includes(CLOSERS[opener]!, opening.length)) {
      return undefined;
    }
    return { type: "paragraph", raw: text, text, tokens: this.lexer.inline(text) };
  },
};

export const mathSyntax: MarkedExtension = {
  extensions: [blockMath, inlineMath],
  // A "=" on its own line in a formula must not turn the words before it into a heading: undefined means no heading,
  // false falls back to marked's own rule.
  tokenizer: { lheading: (text) => (blockStart(text) === undefined ? false : undefined) },
};
