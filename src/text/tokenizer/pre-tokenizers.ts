/** Splits text into words by the rules a model was trained with; byte-level BPE merges only within a word. */

import { MillraceError } from "../../core/errors.js";
import { PRE_TOKENIZERS, type PreTokenizer } from "./pre-tokenizer-table.js";

/** The pre-tokenizer of `tokenizer.ggml.pre`; for files without that key, "default". */
export function findPreTokenizer(name: string | undefined): PreTokenizer {
  const found = PRE_TOKENIZERS.get(name ?? "default");
  if (found !== undefined) return found;
  throw new MillraceError(
    "tokenizer_unsupported",
    `expected tokenizer.ggml.pre to be a known pre-tokenizer, got ${JSON.stringify(name)}`,
    { hint: `Known: ${[...PRE_TOKENIZERS.keys()].join(", ")}.` },
  );
}

/** The words of `text` in order; joined they equal `text`. */
export function splitWords(text: string, preTokenizer: PreTokenizer): readonly string[] {
  let pieces: readonly string[] = text === "" ? [] : [text];
  for (const expression of preTokenizer.expressions) {
    const finer: string[] = [];
    for (const piece of pieces) splitPiece(piece, expression, finer);
    pieces = finer;
  }
  return pieces;
}

/** Every match becomes a piece, and so does every gap between matches. */
function splitPiece(piece: string, expression: RegExp, out: string[]): void {
  let gapStart = 0;
  expression.lastIndex = 0;
  for (let match = expression.exec(piece); match !== null; match = expression.exec(piece)) {
    if (match.index > gapStart) out.push(piece.slice(gapStart, match.index));
    out.push(match[0]);
    gapStart = expression.lastIndex;
  }
  if (gapStart < piece.length) out.push(piece.slice(gapStart));
}
