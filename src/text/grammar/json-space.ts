/** White space between the tokens of JSON that a grammar writes. */
import type { GrammarWriter } from "./ebnf.js";

/** Blanks are bounded: a model could write them until its tokens run out. */
export function jsonSpace(writer: GrammarWriter): string {
  return writer.rule('"" | " " | "\\n" ([ ]{0,40} | [\\t]{0,10})');
}
