/** Compares two answers to one request. */
import { isDeepStrictEqual } from "node:util";
import { isJson } from "./features.js";

/** Whether two answers say the same: as JSON values if both are JSON, else as texts, white space aside. */
export function isSame(a: string, b: string): boolean {
  if (isJson(a) && isJson(b)) return isDeepStrictEqual(parse(a), parse(b));
  return plain(a) === plain(b);
}

const plain = (text: string): string => text.trim().replace(/\s+/g, " ");

const parse = (text: string): unknown => JSON.parse(/^\s*```[^\n]*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text);

/** More of a text is not shown to a judge. */
const MAX_SHOWN = 12_000;

/** Asks a model which of two answers is better. To be asked in both orders, since models prefer a place. */
export function judgePrompt(question: string, first: string, second: string): string {
  const cut = (text: string): string => text.slice(0, MAX_SHOWN);
  return [
    "Two assistants answered the same request. Decide which answer is better: right, complete, and in the form that was asked for.",
    `[Request]\n${cut(question)}`,
    `[Answer A]\n${cut(first)}`,
    `[Answer B]\n${cut(second)}`,
    "Reply with one word: A, B, or TIE.",
  ].join("\n\n");
}

export type Preference = "first" | "second" | "tie";

/** The judge's last word; a reply without one is a tie. */
export function preferenceOf(reply: string): Preference {
  const word = reply
    .toUpperCase()
    .match(/\b(?:A|B|TIE)\b/g)
    ?.at(-1);
  return word === "A" ? "first" : word === "B" ? "second" : "tie";
}
