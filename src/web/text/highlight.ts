/** Colours code. */
import { loadedLater } from "./loaded-later.js";

const highlighterOf = loadedLater(async () => (await import("./languages.js")).highlighter);

/** Longer code stays plain: colouring it with every token of an answer takes too long. */
const MOST_CHARACTERS = 50_000;

/** @returns HTML; undefined: the code is too long, its language is unknown, or the highlighter is still loading */
export function highlight(code: string, language: string): string | undefined {
  if (code.length > MOST_CHARACTERS) return undefined;
  const highlighter = highlighterOf();
  if (highlighter?.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}
