/** A prompt, read once into everything that the vetoes compare. */
import { type Form, formOf } from "./form.js";
import { languageOf, scriptsOf } from "./language.js";
import { type Unit, unitsOf } from "./quantities.js";
import { type Token, tokensOf } from "./tokens.js";

/**
 * A longer prompt is more than a question: the exact cache may keep its answer, the semantic cache does not. In UTF-16
 * units.
 */
export const MAX_QUESTION_LENGTH = 2000;

export interface Question {
  readonly text: string;
  readonly tokens: readonly Token[];
  readonly units: readonly Unit[];
  readonly scripts: readonly string[];
  readonly language: string | undefined;
  readonly form: Form;
  /** The words of the form: in small letters, contractions split, without the frame, quotations and code. */
  readonly words: readonly string[];
}

/** @example questionOf("What's the capital of France?").form.kind // "WHAT" */
export function questionOf(text: string): Question {
  const tokens = tokensOf(text);
  const units = unitsOf(tokens);
  const scripts = scriptsOf(tokens);
  const language = languageOf(tokens);
  const isLatin = scripts.length === 1 && scripts[0] === "Latin";
  const isEnglish = isLatin && (language === undefined || language === "en");
  const form = formOf(units, isEnglish);
  const words = [
    ...form.cues,
    ...form.parts.filter(({ isWord }) => isWord).map(({ text: word }) => word.toLowerCase()),
  ];
  return { text, tokens, units, scripts, language, form, words };
}
