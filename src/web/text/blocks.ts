/**
 * A growing text in blocks of markdown: closed ones never change, so that only the open one is parsed again for each
 * token.
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
 * An open block is parsed with every token: a longer one goes on as another, at a line's end or between two characters.
 */
const PARTS = /[\s\S]{1,29999}(?:\n|$)|[\s\S]{1,30000}(?!(?<=[\ud800-\udbff])[\udc00-\udfff])/g;
/** Code is parsed fast, and has its copy in one piece. */
const FENCE = /^ {0,3}(?:```|~~~)/;

const piecesOf = (text: string): readonly string[] =>
  readMarkdown(text, defaults).flatMap(({ raw }) => (FENCE.test(raw) ? raw : (raw.match(PARTS) ?? raw)));

/** Blocks of a text that goes on from an earlier one, or is another. */
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
    // The lexer normalises line ends: where its pieces are not the text's own, the rest stays one block.
    const own = raws.join("") === rest ? raws : [rest];
    this.#text = text;
    this.#blocks = { closed: [...closed, ...own.slice(0, -1)], open: own.at(-1) ?? "" };
    return this.#blocks;
  }
}
