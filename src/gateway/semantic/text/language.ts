/** Script and language of a short text, from its letters and its common words. */
import { COMMON_WORDS } from "../words/languages.js";
import type { Token } from "./tokens.js";

const SCRIPTS = [
  "Latin",
  "Cyrillic",
  "Greek",
  "Arabic",
  "Hebrew",
  "Devanagari",
  "Han",
  "Hiragana",
  "Katakana",
  "Hangul",
  "Thai",
] as const;
const PATTERNS = SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, "u")] as const);

/** The scripts of the words' first letters, sorted: a text may mix them. */
export function scriptsOf(tokens: readonly Token[]): readonly string[] {
  const scripts = new Set<string>();
  for (const { kind, text } of tokens) {
    if (kind === "word") scripts.add(PATTERNS.find(([, pattern]) => pattern.test(text))?.[0] ?? "other");
  }
  return [...scripts].sort();
}

/** @returns an ISO 639-1 code; undefined if no language has more of the common words than every other */
export function languageOf(tokens: readonly Token[]): string | undefined {
  const words = tokens.filter(({ kind }) => kind === "word").map(({ lower }) => lower.replace(/'.*$/, ""));
  const counts = Object.entries(COMMON_WORDS)
    .map(([language, common]) => ({ language, count: words.filter((word) => common.has(word)).length }))
    .sort((a, b) => b.count - a.count);
  const [first, second] = counts;
  return first !== undefined && first.count > (second?.count ?? 0) ? first.language : undefined;
}
