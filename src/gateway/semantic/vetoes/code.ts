/** Code, identifiers, paths, URLs, addresses, flags and operators must be the same to the letter. */
import type { Question } from "../text/question.js";
import { isSameBag, type Veto } from "./veto.js";

const codeOf = ({ tokens }: Question) =>
  tokens.filter(({ kind }) => kind === "code" || kind === "symbol").map(({ text }) => text.replace(/^`+|`+$/g, ""));

export const CODE: Veto = { name: "code", objects: (a, b) => !isSameBag(codeOf(a), codeOf(b)) };
