/** Colours for code. */
import { loadedLater } from "./loaded-later.js";

const highlighterOf = loadedLater(async () => (await import("./languages.js")).highlighter);

/** @returns HTML; undefined: the language is not known, or the highlighter is still on its way */
export function highlight(code: string, language: string): string | undefined {
  const highlighter = highlighterOf();
  if (highlighter?.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}
