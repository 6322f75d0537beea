/**
 * Marked's lexer, whose time is quadratic for some texts: 20,000 spaces take seconds, and an answer may have as many as
 * it likes. Here a text that stands in one paragraph is read in pieces, words without an end are no markdown, and
 * quotes and lists within each other have a deepest level.
 */
import { Lexer, type MarkedOptions, type Token, type TokensList } from "marked";

const MOST_PIECE_CHARACTERS = 2000;
const DEEPEST_LEVEL = 20;

/** Longer than any address that is meant to be pressed. */
const ENDLESS = /[^\s]{500,}|[^\S\n]{100,}/g;

const plain = (text: string): Token => ({ type: "text", raw: text, text, escaped: false });

/** The end of the piece that begins here: of a line or a sentence, if there is one. */
function pieceEnd(text: string, begin: number, end: number): number {
  const most = begin + MOST_PIECE_CHARACTERS;
  if (end <= most) return end;
  const piece = text.slice(begin, most);
  const cut = Math.max(piece.lastIndexOf("\n"), piece.lastIndexOf(". "), piece.lastIndexOf("。")) + 1;
  return cut > 0 ? begin + cut : begin + piece.lastIndexOf(" ") + 1 || most;
}

class BoundedLexer<P, R> extends Lexer<P, R> {
  #level = 0;

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    let begin = 0;
    const read = (end: number) => {
      while (begin < end) {
        const until = pieceEnd(text, begin, end);
        super.inlineTokens(text.slice(begin, until), tokens);
        begin = until;
      }
    };
    for (const { index, 0: endless } of text.matchAll(ENDLESS)) {
      read(index);
      tokens.push(plain(endless));
      begin = index + endless.length;
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

export const readMarkdown = <P = string, R = string>(text: string, options?: MarkedOptions<P, R>): Token[] =>
  new BoundedLexer(options).lex(text);
