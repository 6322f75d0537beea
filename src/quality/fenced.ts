/** Answers that come in a code fence. */

/** The inside of a code fence that is all there is of the text; else the text. */
export function unfence(text: string): string {
  return /^\s*```[^\n]*\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
}

/** Undefined where the text, without the code fence around it, is no JSON. */
export function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(unfence(text)) };
  } catch {
    return undefined;
  }
}
