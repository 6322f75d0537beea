/** Scores tool calls: whether the functions that were to be called were, with these arguments, and no others. */
import { isDeepStrictEqual } from "node:util";
import { isPlainObject } from "../core/is-plain-object.js";
import type { ToolCall } from "./ask.js";
import type { Check } from "./check.js";
import type { Score } from "./score.js";

type CallCheck = Extract<Check, { kind: "calls" }>;

/** The share of right calls among the wanted and the made ones; exact: all of them, in any order. */
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

/** Models may give no text for no arguments. @returns undefined where the text is no JSON */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text.trim() === "" ? "{}" : text);
  } catch {
    return undefined;
  }
}

/** Letter case, white space around texts and their final mark do not count; the type of a value does. */
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
