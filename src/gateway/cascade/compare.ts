/** Compares two answers to one request. */
import { isDeepStrictEqual } from "node:util";
import { isJson } from "./features.js";

/** Whether two answers are equal: as JSON values if both are JSON, else as texts without white space. */
export function isSame(a: string, b: string): boolean {
  if (isJson(a) && isJson(b)) return isDeepStrictEqual(parse(a), parse(b));
  return plain(a) === plain(b);
}

const plain = (text: string): string => text.trim().replace(/\s+/g, " ");

const parse = (text: string): unknown => JSON.parse(/^\s*```[^\n]*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text);
