/** Colours for code. */
import { loadedLater } from "./loaded-later.js";

const highlighterOf = loadedLater(async () => (await import("./languages.js")).highlighter);

/** Longer code takes too long to be coloured with every token of an answer. */
const MOST_CHARACTERS = 50_000;

/** @returns HTML; undefined: it is too long, the language is not known, or the highlighter is still on its way */
export function highlight(code: string, language: string): string | undefined {
  if (code.length > MOST_CHARACTERS) return undefined;
  const highlighter = highlighterOf();
  if (highlighter?.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}
