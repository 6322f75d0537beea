/** The answer runs in a loop: its end is one passage over and over, or most of it repeats earlier text. */
import { repeatsItself } from "../../cascade/features.js";
import { type Check, yesOrNo } from "./check.js";

/** Words at the end that are searched for a loop. */
const END_WORDS = 600;
const MAX_PERIOD = 100;
const MIN_ROUNDS = 4;
/** A loop must span at least this many words, so a single word must repeat as often. */
const MIN_LOOP_WORDS = 12;
const GRAM = 6;
const MIN_GRAMS = 80;
/** Prose has hardly any passage of six words twice; tables and code have some. */
const MIN_DISTINCT = 0.4;
const MAX_CHARACTERS = 100_000;

/** Whether the words end in a passage that is repeated four times in a row. */
function endsInLoop(words: readonly string[]): boolean {
  const end = words.slice(-END_WORDS);
  for (let period = 1; period <= MAX_PERIOD && period * MIN_ROUNDS <= end.length; period++) {
    let run = period;
    for (let at = end.length - 1 - period; at >= 0 && end[at] === end[at + period]; at--) run++;
    if (run >= Math.max(MIN_ROUNDS * period, MIN_LOOP_WORDS)) return true;
  }
  return false;
}

function distinctShare(words: readonly string[]): number {
  const numGrams = words.length - GRAM + 1;
  if (numGrams < MIN_GRAMS) return 1;
  const grams = new Set<string>();
  for (let at = 0; at < numGrams; at++) grams.add(words.slice(at, at + GRAM).join(" "));
  return grams.size / numGrams;
}

export const repetition: Check = ({ answer: { text } }) => {
  const words = text.slice(-MAX_CHARACTERS).toLowerCase().match(/\S+/g) ?? [];
  if (repeatsItself(text.slice(-MAX_CHARACTERS)) || endsInLoop(words)) return yesOrNo(true, "ends in a loop");
  return yesOrNo(distinctShare(words) < MIN_DISTINCT, "says the same passages again");
};
