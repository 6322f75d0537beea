/**
 * All vetoes, the cheap ones first. One objection is enough, but all vetoes are asked, so that each one's share is
 * known.
 */
import type { Question } from "../text/question.js";
import { CODE } from "./code.js";
import { CONTENT } from "./content.js";
import { DIRECTION } from "./direction.js";
import { FORMAT } from "./format.js";
import { LANGUAGE } from "./language.js";
import { LENGTH } from "./length.js";
import { NAMES } from "./names.js";
import { NEGATION } from "./negation.js";
import { OPPOSITE } from "./opposites.js";
import { ORDER } from "./order.js";
import { QUANTITIES } from "./quantities.js";
import { QUESTION_WORD } from "./question-word.js";
import { QUOTES } from "./quotes.js";
import type { Veto, VetoContext } from "./veto.js";

export const VETOES: readonly Veto[] = [
  LANGUAGE,
  LENGTH,
  QUESTION_WORD,
  QUANTITIES,
  QUOTES,
  CODE,
  NEGATION,
  OPPOSITE,
  FORMAT,
  DIRECTION,
  ORDER,
  NAMES,
  CONTENT,
];

/** @returns the names of the vetoes that object: none if the two questions are the same */
export function objectionsTo(a: Question, b: Question, context: VetoContext): readonly string[] {
  return VETOES.filter(({ objects }) => objects(a, b, context)).map(({ name }) => name);
}
