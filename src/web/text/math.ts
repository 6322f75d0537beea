/**
 * Mathematics as MathML, which browsers draw with fonts of their own. The formulas are anybody's: none defines macros,
 * and their size has an end.
 */
import type { KatexOptions } from "katex";
import { loadedLater } from "./loaded-later.js";

const katexOf = loadedLater(async () => (await import("katex")).default);

const OPTIONS: KatexOptions = {
  output: "mathml",
  // Nothing that loads, links or styles.
  trust: false,
  strict: "ignore",
  throwOnError: true,
  maxExpand: 200,
  // In em.
  maxSize: 20,
};

/** A short definition that is long when it is expanded takes seconds, within the limit of expansions too. */
const DEFINES = /\\(?:[egx]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand|DeclareMathOperator)\b/;

const MOST_KEPT = 500;
/** Drawn formulas by source, kept because an open block is drawn again with every token of an answer. */
const kept = new Map<string, string | undefined>();

/** @returns HTML that is not sanitised yet; undefined: the source is no formula, or KaTeX is still loading */
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
    // The annotation repeats the source, which would be shown beside the formula.
    return html.replace(/<annotation .*<\/annotation>/s, "");
  } catch {
    return undefined;
  }
}
