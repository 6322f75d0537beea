/**
 * JSON with numbers that keep their digits in templates: numbers that a double would print differently (a long id, 1.0)
 * become marked texts.
 */
import { like } from "./jinja-library.js";
import { NumberText, type Value } from "./jinja-values.js";

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const MARK = "__millrace_number_";
/** Matches a marked number in the JSON that a template prints. */
const PRINTED_MARK = new RegExp(`\\\\?"(${MARK}[0-9a-f]+)\\\\?"`, "g");

/** Throws SyntaxError. @param numbers receives each mark's number */
export function parseMarked(json: string, numbers: Map<string, NumberText>): unknown {
  JSON.parse(json);
  return JSON.parse(
    json.replace(STRING_OR_NUMBER, (token) => {
      if (token.startsWith('"') || String(Number(token)) === token) return token;
      return `"${marked(token, numbers).mark}"`;
    }),
  );
}

/** Equal numbers have equal marks. */
function marked(text: string, numbers: Map<string, NumberText>): NumberText {
  const mark = `${MARK}${Buffer.from(text).toString("hex")}`;
  const number = new NumberText(text, mark);
  numbers.set(mark, number);
  return number;
}

/** Whether the value has floats like 1.0, which Python's JSON prints as 1.0 and JSON.stringify as 1. */
export function hasWholeFloats({ type, value }: Value): boolean {
  if (Array.isArray(value)) return (value as readonly Value[]).some(hasWholeFloats);
  if (!(value instanceof Map)) return type === "FloatValue" && Number.isInteger(value);
  for (const inner of (value as ReadonlyMap<unknown, Value>).values()) if (hasWholeFloats(inner)) return true;
  return false;
}

/** The value with marked texts in place of such floats. @param numbers receives each mark's number */
export function withMarkedFloats(value: Value, numbers: Map<string, NumberText>): Value {
  const held = value.value;
  const inner = (each: Value): Value => withMarkedFloats(each, numbers);
  if (Array.isArray(held)) return like(value, (held as readonly Value[]).map(inner));
  if (held instanceof Map) {
    return like(value, new Map([...(held as ReadonlyMap<unknown, Value>)].map(([key, each]) => [key, inner(each)])));
  }
  return hasWholeFloats(value) ? like(value, marked(String(value), numbers)) : value;
}

/** The text with the numbers' digits in place of their marks. */
export function withNumbers(text: string, numbers: ReadonlyMap<string, NumberText>): string {
  return numbers.size === 0 ? text : text.replace(PRINTED_MARK, (match, mark) => numbers.get(mark)?.text ?? match);
}
