/**
 * JSON whose numbers keep their digits in templates: those that a double prints otherwise (a long id, 1.0) stand as
 * marked texts.
 */
import { NumberText } from "./jinja-values.js";

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const MARK = "__millrace_number_";
/** Matches a marked number in the JSON that a template prints. */
const PRINTED_MARK = new RegExp(`\\\\?"(${MARK}[0-9a-f]+)\\\\?"`, "g");

/** Throws SyntaxError. @param numbers gets what the marks stand for */
export function parseMarked(json: string, numbers: Map<string, NumberText>): unknown {
  JSON.parse(json);
  return JSON.parse(
    json.replace(STRING_OR_NUMBER, (token) => {
      if (token.startsWith('"') || String(Number(token)) === token) return token;
      // Equal numbers have equal marks.
      const mark = `${MARK}${Buffer.from(token).toString("hex")}`;
      numbers.set(mark, new NumberText(token, mark));
      return `"${mark}"`;
    }),
  );
}

/** The text with the numbers' digits in place of their marks. */
export function withNumbers(text: string, numbers: ReadonlyMap<string, NumberText>): string {
  return numbers.size === 0 ? text : text.replace(PRINTED_MARK, (match, mark) => numbers.get(mark)?.text ?? match);
}
