/**
 * Requests that the bundled model can do, as people may put them, and how an answer is judged: by the corpus' own
 * scorers.
 */
import { topics } from "../../models/corpus/lists.js";
import type { Check } from "../../src/quality/check.js";

interface Phrasing {
  readonly ask: string;
  readonly check: Check;
  /** For checks that compare. */
  readonly expected: string;
}

function list(ask: string, numItems: number, topic: string): Phrasing {
  const items = topics.find(([name]) => name === topic)?.[1];
  if (items === undefined) throw new Error(`the corpus has no list of ${topic}`);
  return { ask, check: { kind: "list", numItems, items }, expected: "" };
}

const number = (ask: string, value: number): Phrasing => ({ ask, check: { kind: "number", value }, expected: "" });
const mentions = (ask: string, ...words: readonly string[]): Phrasing => ({
  ask,
  check: { kind: "mentions", words },
  expected: "",
});
const phrase = (ask: string, expected: string): Phrasing => ({ ask, check: { kind: "phrase" }, expected });

export const PHRASINGS: readonly Phrasing[] = [
  list("List five animals.", 5, "animals"),
  list("Name five animals please", 5, "animals"),
  list("Can you list four fruits?", 4, "fruits"),
  list("Give me three colours", 3, "colours"),
  list("Please list three vegetables", 3, "vegetables"),
  number("What is 12 + 30?", 42),
  number("how much is 7 times 8", 56),
  number("Calculate 145 + 278.", 423),
  number("What is 90 minus 35?", 55),
  number("24 * 6", 144),
  mentions("Tell me a short story about a fox and a river.", "fox", "river"),
  mentions("Write a story about a girl called Mia.", "Mia"),
  mentions("Can you tell me a bedtime story about a dragon?", "dragon"),
  mentions("Who are you?", "small language model"),
  mentions("What can you do?", "answer questions", "stories"),
  mentions("What is the capital of France?", "Paris"),
  phrase("Tom bought a red lamp in Oslo. What did Tom buy?", "a red lamp"),
  phrase("Anna lives in Paris. Where does Anna live?", "Paris"),
  phrase("Which is bigger, 14 or 41?", "41"),
  {
    ask: 'Extract the name and the age as JSON: "Ben is 31 years old."',
    check: { kind: "json" },
    expected: '{"name": "Ben", "age": 31}',
  },
];
