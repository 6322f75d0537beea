/** Neither question has several times the content of the other. */
import type { Question } from "../text/question.js";
import type { Veto } from "./veto.js";

/** Least share of the longer question's parts that the shorter one has. */
const LEAST_SHARE = 0.5;

const lengthOf = ({ form }: Question) => form.parts.length + 1;

export const LENGTH: Veto = {
  name: "length",
  objects: (a, b) => Math.min(lengthOf(a), lengthOf(b)) < LEAST_SHARE * Math.max(lengthOf(a), lengthOf(b)),
};
