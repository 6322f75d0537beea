/** White space between the tokens of JSON in a grammar. */
import type { GrammarWriter } from "./ebnf.js";

/** Blanks are bounded, because a model could otherwise repeat them until its token limit. */
export function jsonSpace(writer: GrammarWriter): string {
  return writer.rule('"" | " " | "\\n" ([ ]{0,40} | [\\t]{0,10})');
}
