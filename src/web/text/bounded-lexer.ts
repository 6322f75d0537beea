/**
 * Marked's lexer in bounded time. Marked itself is quadratic for some texts: 20,000 spaces take seconds, and an answer
 * may have any number. This lexer reads the text of one paragraph in pieces, reads endless words as plain text, and
 * limits the depth of quotes and lists.
 */
import { Lexer, type MarkedOptions, type Token, type TokensList } from "marked";

const MOST_PIECE_CHARACTERS = 2000;
/** Each mark may make the lexer search the rest of its piece for a closing one. */
const MOST_PIECE_MARKS = 100;
const DEEPEST_LEVEL = 20;

const ENDLESS_CHARACTERS = 500;
const ENDLESS_SPACES = 100;

/** Chinese and Japanese have no spaces: dashes, dots and full-width marks also end a word. */
const WIDE_MARKS = "\\u2014\\u2026\\u3000-\\u303f\\u30fb\\uff00-\\uff0f\\uff1a-\\uff20\\uff3b-\\uff40\\uff5b-\\uff65";
const RUN = new RegExp(`[^\\s${WIDE_MARKS}]+|[^\\S\\n]+`, "g");

/**
 * Code, links and addresses, which may exceed a word and stay whole. Each alternative ends at the character that begins
 * it, so that the search takes linear time. An address never ends in a mark, because marked removes many marks from an
 * address one by one.
 */
const WHOLE = new RegExp(
  [
    "(?<![`\\\\])(`+)[^`]{1,8000}\\1(?!`)",
    '(?<!\\\\)\\[[^[\\]\\\\\\n]{0,500}\\]\\(https?://[^\\s()<>[\\]`]{1,8000}(?: "[^"\\n]{0,500}")?\\)',
    `https?://[^\\s()<>[\\]\`*~${WIDE_MARKS}]{0,8000}[a-zA-Z0-9/=%#+-]`,
  ].join("|"),
  "g",
);

interface Range {
  readonly begin: number;
  readonly end: number;
}

const rangesOf = (text: string, pattern: RegExp, offset = 0): readonly Range[] =>
  [...text.matchAll(pattern)].map(({ index, 0: { length } }) => ({
    begin: offset + index,
    end: offset + index + length,
  }));

/** Words and runs of spaces that are too long to be parsed. */
function endlessIn(text: string, wholes: readonly Range[]): readonly Range[] {
  const found: Range[] = [];
  let offset = 0;
  for (const { begin, end } of [...wholes, { begin: text.length, end: text.length }]) {
    for (const run of rangesOf(text.slice(offset, begin), RUN, offset)) {
      const most = /\s/.test(text[run.begin]!) ? ENDLESS_SPACES : ENDLESS_CHARACTERS;
      if (run.end - run.begin >= most) found.push(run);
    }
    offset = end;
  }
  return found;
}

const plain = (text: string): Token => ({ type: "text", raw: text, text, escaped: false });

/** The part of the text that fits into one piece. */
function pieceAt(text: string, begin: number): string {
  const piece = text.slice(begin, begin + MOST_PIECE_CHARACTERS);
  let numMarks = 0;
  for (const { index } of piece.matchAll(/[*_~]+/g)) {
    if (++numMarks > MOST_PIECE_MARKS) return piece.slice(0, index);
  }
  return piece;
}

/** Number of these characters to keep before a cut: up to a line's or sentence's end, if there is one. */
function cutOf(characters: string): number {
  // A line end would count as one at the beginning of the next piece; at the end of a piece it has no effect.
  const sentence = Math.max(
    characters.lastIndexOf("\n"),
    characters.lastIndexOf(". ") + 1,
    characters.lastIndexOf("。") + 1,
  );
  if (sentence > 0) return sentence;
  const space = characters.search(/\s\S*$/) + 1;
  if (space > 0) return space;
  return /[\ud800-\udbff]$/.test(characters) ? characters.length - 1 : characters.length;
}

class BoundedLexer<P, R> extends Lexer<P, R> {
  #level = 0;

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    const wholes = rangesOf(text, WHOLE);
    let begin = 0;
    let numPassed = 0;
    /** The end of the piece that begins here: a whole range, or as much as fits before the next one. */
    const pieceEnd = (end: number): number => {
      const piece = pieceAt(text, begin);
      if (end <= begin + piece.length) return end;
      const cut = begin + cutOf(piece);
      while (numPassed < wholes.length && wholes[numPassed]!.end <= begin) numPassed++;
      const parted = wholes.slice(numPassed, numPassed + MOST_PIECE_CHARACTERS).find((one) => one.end > cut);
      if (parted === undefined || parted.begin >= cut) return cut;
      return parted.begin > begin ? parted.begin : parted.end;
    };
    const read = (end: number) => {
      while (begin < end) {
        const until = pieceEnd(end);
        super.inlineTokens(text.slice(begin, until), tokens);
        begin = until;
      }
    };
    for (const endless of endlessIn(text, wholes)) {
      read(endless.begin);
      tokens.push(plain(text.slice(endless.begin, endless.end)));
      begin = endless.end;
    }
    read(text.length);
    return tokens;
  }

  override blockTokens(text: string, tokens?: Token[], isClipped?: boolean): Token[];
  override blockTokens(text: string, tokens?: TokensList, isClipped?: boolean): TokensList;
  override blockTokens(text: string, tokens: Token[] = [], isClipped = false): Token[] {
    if (this.#level > DEEPEST_LEVEL) {
      tokens.push(plain(text));
      return tokens;
    }
    this.#level++;
    try {
      return super.blockTokens(text, tokens, isClipped);
    } finally {
      this.#level--;
    }
  }
}

/** A text on which the lexer throws becomes one plain paragraph. */
export function readMarkdown<P = string, R = string>(text: string, options?: MarkedOptions<P, R>): Token[] {
  try {
    return new BoundedLexer(options).lex(text);
  } catch {
    return [{ type: "paragraph", raw: text, text, tokens: [plain(text)] }];
  }
}
