/** Scores tool calls: the expected functions with the expected arguments, and no others. */
import { isDeepStrictEqual } from "node:util";
import { isPlainObject } from "../core/is-plain-object.js";
import type { ToolCall } from "./ask.js";
import type { Check } from "./check.js";
import type { Score } from "./score.js";

type CallCheck = Extract<Check, { kind: "calls" }>;

/** The share of right calls among the expected and the actual ones; exact: all are right, in any order. */
export function scoreCalls({ calls: wanted }: CallCheck, made: readonly ToolCall[]): Score {
  const open = made.map(({ name, arguments: text }) => ({ name, arguments: parsed(text) }));
  const missing = wanted.filter((want) => {
    const index = open.findIndex((each) => each.name === want.name && isSame(each.arguments, want.arguments));
    if (index >= 0) open.splice(index, 1);
    return index < 0;
  });
  if (missing.length === 0 && open.length === 0) return { score: 1, exact: true };
  const numRight = wanted.length - missing.length;
  const notes = [
    ...missing.map(({ name }) => `no right call of ${name}`),
    ...open.map(({ name, arguments: given }) => `called ${name}${given === undefined ? " without JSON" : ""}`),
  ];
  return { score: numRight / Math.max(wanted.length, made.length), exact: false, note: notes.join("; ") };
}

/** Models may write an empty text for no arguments. @returns undefined if the text is not JSON */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text.trim() === "" ? "{}" : text);
  } catch {
    return undefined;
  }
}

/** Ignores letter case, white space around texts and their final mark; the type of a value counts. */
function isSame(value: unknown, wanted: unknown): boolean {
  if (typeof value === "string" && typeof wanted === "string") return plain(value) === plain(wanted);
  if (Array.isArray(value) && Array.isArray(wanted)) {
    return value.length === wanted.length && value.every((each, index) => isSame(each, wanted[index]));
  }
  if (isPlainObject(value) && isPlainObject(wanted)) {
    const [names, own] = [Object.keys(wanted), Object.keys(value)];
    return (
      names.length === own.length &&
      names.every((name) => Object.hasOwn(value, name) && isSame(value[name], wanted[name]))
    );
  }
  return isDeepStrictEqual(value, wanted);
}

const plain = (text: string): string =>
  text
    .trim()
    .replace(/[.!?]$/, "")
    .toLowerCase();
