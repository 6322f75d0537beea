/** Colours for code. The highlighter is loaded when the first code is shown. */
import { signal } from "@preact/signals";
import type { HLJSApi } from "highlight.js";

let highlighter: HLJSApi | undefined;
let isLoading = false;
/** Texts that were shown before it came are shown again. */
export const isHighlighterReady = signal(false);

async function load(): Promise<void> {
  isLoading = true;
  const { highlighter: loaded } = await import("./languages.js");
  highlighter = loaded;
  isHighlighterReady.value = true;
}

/** @returns HTML; undefined: the language is not known, or the highlighter is still on its way */
export function highlight(code: string, language: string): string | undefined {
  if (highlighter === undefined) {
    // Without it, code has no colours.
    if (!isLoading) load().catch(() => {});
    return undefined;
  }
  if (highlighter.getLanguage(language) === undefined) return undefined;
  return highlighter.highlight(code, { language, ignoreIllegals: true }).value;
}
