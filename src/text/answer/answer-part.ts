/**
 * The parts of an answer's text. Joined in order they give the answer without its markers and their surrounding white
 * space.
 */

export type AnswerPart =
  | { readonly kind: "content"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string }
  /** A call begins; `index` counts the answer's calls. */
  | { readonly kind: "call"; readonly index: number; readonly name: string }
  /** The next piece of that call's arguments: JSON exactly as the model wrote it. */
  | { readonly kind: "arguments"; readonly index: number; readonly text: string };

/** Appends a part; text joins the last part if that is text of the same kind. */
export function appendPart(parts: AnswerPart[], part: AnswerPart): void {
  const last = parts.at(-1);
  if (last === undefined || last.kind !== part.kind || last.kind === "call" || part.kind === "call") {
    parts.push(part);
    return;
  }
  parts[parts.length - 1] = { ...last, text: last.text + part.text };
}
