/** No word of one question may be the opposite of a word of the other, except words that both share. */
import { OPPOSITES } from "../words/antonyms.js";
import { onlyIn, type Veto } from "./veto.js";

export const OPPOSITE: Veto = {
  name: "opposites",
  objects(a, b) {
    const right = onlyIn(b.words, a.words).flatMap((word) => OPPOSITES.get(word) ?? []);
    return onlyIn(a.words, b.words)
      .flatMap((word) => OPPOSITES.get(word) ?? [])
      .some(([line, side]) => right.some(([otherLine, otherSide]) => line === otherLine && side !== otherSide));
  },
};
