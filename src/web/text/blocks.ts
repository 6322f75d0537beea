/**
 * Divides a growing text into blocks of markdown: closed blocks never change, so each token only causes the open one to
 * be parsed.
 */
import { Marked } from "marked";
import { readMarkdown } from "./bounded-lexer.js";
import { mathSyntax } from "./math-syntax.js";

const { defaults } = new Marked(mathSyntax);

interface Blocks {
  readonly closed: readonly string[];
  readonly open: string;
}

const NONE: Blocks = { closed: [], open: "" };

/**
 * Limits blocks, because an open block is parsed with every token: a longer one continues as another, from a line's end
 * or between two characters.
 */
const PARTS = /[\s\S]{1,29999}(?:\n|$)|[\s\S]{1,30000}(?!(?<=[\ud800-\udbff])[\udc00-\udfff])/g;
/** Code parses fast, and is copied in one piece. */
const FENCE = /^ {0,3}(?:```|~~~)/;

const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const MOST_CHARACTERS = 30_000;

const piecesOf = (text: string): readonly string[] =>
  withWholeLists(
    readMarkdown(text, defaults).flatMap(({ raw }) => (FENCE.test(raw) ? raw : (raw.match(PARTS) ?? raw))),
  );

/** A list continues after blank lines and with indented text: only a whole unindented line without a marker ends it. */
const endsList = (next: string): boolean => /^\S.*\n/.test(next) && !ITEM.test(next);

function withWholeLists(raws: readonly string[]): readonly string[] {
  const blocks: string[] = [];
  let isList = false;
  for (const [i, raw] of raws.entries()) {
    const last = blocks.at(-1);
    if (
      last !== undefined &&
      isList &&
      !endsList(raw + (raws[i + 1] ?? "")) &&
      last.length + raw.length <= MOST_CHARACTERS
    ) {
      blocks[blocks.length - 1] = last + raw;
    } else {
      blocks.push(raw);
      isList = ITEM.test(raw);
    }
  }
  return blocks;
}

/** Blocks of a text that continues the previous one, or replaces it. */
export class BlockSplitter {
  #text = "";
  #blocks: Blocks = NONE;

  split(text: string): Blocks {
    if (!text.startsWith(this.#text)) this.#blocks = NONE;
    else if (text.length === this.#text.length) return this.#blocks;
    const { closed } = this.#blocks;
    const numDone = closed.reduce((sum, block) => sum + block.length, 0);
    const rest = text.slice(numDone);
    const raws = piecesOf(rest);
    // The lexer normalises line ends: where its pieces differ from the text's own, the rest stays one block.
    const own = raws.join("") === rest ? raws : [rest];
    this.#text = text;
    this.#blocks = { closed: [...closed, ...own.slice(0, -1)], open: own.at(-1) ?? "" };
    return this.#blocks;
  }
}
