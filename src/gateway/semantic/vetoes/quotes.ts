/** Quoted text must be the same, up to capitals. */
import type { Question } from "../text/question.js";
import { isSameBag, type Veto } from "./veto.js";

const quotesOf = ({ tokens }: Question) => tokens.filter(({ kind }) => kind === "quote").map(({ lower }) => lower);

export const QUOTES: Veto = { name: "quotes", objects: (a, b) => !isSameBag(quotesOf(a), quotesOf(b)) };
