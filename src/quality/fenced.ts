/** Answers inside a code fence. */

/** The content of a code fence that surrounds the whole text; otherwise the text. */
export function unfence(text: string): string {
  return /^\s*```[^\n]*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
}

/** Undefined if the text, without a surrounding code fence, is not JSON. */
export function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(unfence(text)) };
  } catch {
    return undefined;
  }
}
