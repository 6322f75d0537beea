/** Code, identifiers, paths, URLs, addresses, flags and operators must be the same to the letter. */
import type { Question } from "../text/question.js";
import { isSameBag, type Veto } from "./veto.js";

const codeOf = ({ tokens }: Question): readonly string[] =>
  tokens.filter(({ kind }) => kind === "code").map(({ text }) => text.replace(/^`+|`+$/g, ""));

/** The text from the first sign to the last: brackets elsewhere make another term. */
function signsOf({ tokens }: Question): string {
  const first = tokens.findIndex(({ kind }) => kind === "symbol");
  const last = tokens.findLastIndex(({ kind }) => kind === "symbol");
  return tokens
    .slice(Math.max(first, 0), last + 1)
    .filter(({ kind }) => kind !== "stop")
    .map(({ kind, lower }) => (kind === "word" ? "·" : lower))
    .join(" ");
}

export const CODE: Veto = {
  name: "code",
  objects: (a, b) => !isSameBag(codeOf(a), codeOf(b)) || signsOf(a) !== signsOf(b),
};
