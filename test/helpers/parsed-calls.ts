/** Runs a parser of tool calls over a text in pieces. */
import { type AnswerPart, appendPart } from "../../src/text/answer/answer-part.js";
import type { ToolCallFormat } from "../../src/text/answer/call-format.js";
import { ToolCallParser, type ToolCallParserOptions } from "../../src/text/answer/tool-call-parser.js";

/** @returns the parts of the answer, of which adjacent ones of a kind are joined */
export function parsedCalls(
  format: ToolCallFormat,
  pieces: readonly string[],
  options: ToolCallParserOptions,
): AnswerPart[] {
  const parser = new ToolCallParser(format, options);
  const parts: AnswerPart[] = [];
  for (const piece of pieces) for (const part of parser.push(piece)) appendPart(parts, part);
  for (const part of parser.flush()) appendPart(parts, part);
  return parts;
}
