/**
 * Converts mathematics to MathML, which browsers draw with their own fonts. Formulas are untrusted: none may define
 * macros, and their size is limited.
 */
import type { KatexOptions } from "katex";
import { loadedLater } from "./loaded-later.js";

const katexOf = loadedLater(async () => (await import("katex")).default);

const OPTIONS: KatexOptions = {
  output: "mathml",
  // Disables commands that load, link or style.
  trust: false,
  strict: "ignore",
  throwOnError: true,
  maxExpand: 200,
  // In em.
  maxSize: 20,
};

/**
 * Commands that define macros: a short definition with a long expansion takes seconds, even within the limit of
 * expansions.
 */
const DEFINES = /\\(?:[egx]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand|DeclareMathOperator)\b/;

const MOST_KEPT = 500;
/** Drawn formulas by source, cached because an open block is drawn again with every token of an answer. */
const kept = new Map<string, string | undefined>();

/** @returns HTML before sanitising; undefined: the source is not a formula, or KaTeX is still loading */
export function mathHtml(source: string, isDisplay: boolean): string | undefined {
  const katex = katexOf();
  if (katex === undefined) return undefined;
  const key = `${isDisplay} ${source}`;
  if (!kept.has(key)) {
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(key, draw(katex, source, isDisplay));
  }
  return kept.get(key);
}

type Katex = NonNullable<ReturnType<typeof katexOf>>;

function draw(katex: Katex, source: string, isDisplay: boolean): string | undefined {
  if (DEFINES.test(source)) return undefined;
  try {
    const html = katex.renderToString(source, { ...OPTIONS, displayMode: isDisplay });
    // The annotation repeats the source, which would appear beside the formula.
    return html.replace(/<annotation .*<\/annotation>/s, "");
  } catch {
    return undefined;
  }
}
