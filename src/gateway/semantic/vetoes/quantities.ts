/** Numbers, units, currencies, percentages, dates and times must be the same, and equally often. */
import type { Question } from "../text/question.js";
import { isSameBag, type Veto } from "./veto.js";

const quantitiesOf = ({ units }: Question) => units.flatMap(({ quantity }) => quantity ?? []);

export const QUANTITIES: Veto = {
  name: "quantities",
  objects: (a, b) => !isSameBag(quantitiesOf(a), quantitiesOf(b)),
};
