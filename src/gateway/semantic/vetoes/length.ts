/** Neither question may have several times the content of the other. */
import type { Question } from "../text/question.js";
import type { Veto } from "./veto.js";

/** Least size of the shorter question, as a share of the longer one's parts. */
const LEAST_SHARE = 0.5;

const lengthOf = ({ form }: Question) => form.parts.length + 1;

export const LENGTH: Veto = {
  name: "length",
  objects: (a, b) => Math.min(lengthOf(a), lengthOf(b)) < LEAST_SHARE * Math.max(lengthOf(a), lengthOf(b)),
};
