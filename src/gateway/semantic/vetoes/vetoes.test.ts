/** Each veto objects to its own differences only; together they pass the pairs that they were developed with. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../../core/package-root.js";
import { questionOf } from "../text/question.js";
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
import { objectionsTo, VETOES } from "./vetoes.js";

const strict: VetoContext = { strictness: "strict", rarity: () => 0.5 };
const objects = (veto: Veto, a: string, b: string, context = strict): boolean => {
  const [left, right] = [questionOf(a), questionOf(b)];
  const verdict = veto.objects(left, right, context);
  expect(veto.objects(right, left, context)).toBe(verdict);
  return verdict;
};

type Case = readonly [veto: Veto, a: string, b: string];

const OBJECTED: readonly Case[] = [
  [QUANTITIES, "Rice for 4 people", "Rice for 14 people"],
  [QUANTITIES, "Run 5 km", "Run 5 miles"],
  [QUANTITIES, "$5 in yen", "€5 in yen"],
  [QUANTITIES, "Meet at 3 pm", "Meet at 3 am"],
  [QUANTITIES, "The second king", "The third king"],
  [QUANTITIES, "drei Äpfel", "vier Äpfel"],
  [NAMES, "Who is Tom Hanks?", "Who is Tom Cruise?"],
  [NAMES, "Is GPT-4 good?", "Is GPT-5 good?"],
  [QUOTES, 'Spell "affect"', 'Spell "effect"'],
  [QUOTES, "Spell ‘affect’", "Spell affect"],
  [CODE, "Explain `a --b`", "Explain `a --c`"],
  [CODE, "Open /etc/passwd", "Open /etc/shadow"],
  [CODE, "Mail a@b.com", "Mail a@c.com"],
  [CODE, "Is a < b", "Is a > b"],
  [CODE, "What is (2+3)*4?", "What is 2+(3*4)?"],
  [NEGATION, "Which birds fly?", "Which birds do not fly?"],
  [NEGATION, "Why does it work?", "Why doesn't it work?"],
  [NEGATION, "How to install it", "How to uninstall it"],
  [NEGATION, "Ist das legal?", "Ist das nicht legal?"],
  [NEGATION, "Was Caesar killed?", "Was not Caesar killed?"],
  [OPPOSITE, "How do I turn it on?", "How do I turn it off?"],
  [OPPOSITE, "How to buy gold", "How to sell gold"],
  [OPPOSITE, "The largest lake", "The smallest lake"],
  [DIRECTION, "Fly from Rome to Oslo", "Fly from Oslo to Rome"],
  [DIRECTION, "Eat before sleep", "Eat before running"],
  [ORDER, "Does Spain beat Italy?", "Does Italy beat Spain?"],
  [ORDER, "Is Java faster than Rust?", "Is Rust faster than Java?"],
  [QUESTION_WORD, "Who invented it?", "When was it invented?"],
  [QUESTION_WORD, "How many came?", "Who came?"],
  [QUESTION_WORD, "Wer kam?", "Wann kam er?"],
  [LANGUAGE, "What is love?", "Was ist die Liebe?"],
  [LANGUAGE, "Привет", "Hello"],
  [LENGTH, "Sort a list", "Sort a list of the names of all of my friends by age and town"],
  [FORMAT, "Name planets as JSON", "Name planets"],
  [FORMAT, "Explain it briefly", "Explain it in detail"],
  [FORMAT, "Say it in French", "Say it in German"],
  [CONTENT, "Can dogs eat grapes?", "Can dogs eat apples?"],
  [CONTENT, "Do I need milk and eggs?", "Do I need milk or eggs?"],
  [CONTENT, "Who is the king?", "Who was the king?"],
  [CONTENT, "Do birds fly?", "Do just birds fly?"],
  [CONTENT, "Can I take it?", "Should I take it?"],
  [CONTENT, "Give me a tip for sleep", "Give me tips for sleep"],
];

test.each(OBJECTED.map(([veto, a, b]) => [veto.name, a, b, veto] as const))("%s: %s ≠ %s", (_, a, b, veto) => {
  expect(objects(veto, a, b)).toBe(true);
});

const SAME: readonly (readonly [string, string])[] = [
  ["How do I travel from Paris to Rome?", "How can I travel to Rome from Paris?"],
  ["How far is five kilometres?", "How far is 5 km?"],
  ["When did the war end?", "Can you tell me when the war ended?"],
  ["How do I buy a car?", "How can I purchase an automobile?"],
  ["Convert a list to a tuple", "Please convert a list into a tuple"],
  ["WHAT IS THE CAPITAL OF FRANCE?", "what is the capital of france"],
];

test.each(SAME)("nothing objects to %s = %s", (a, b) => {
  expect(VETOES.filter((veto) => objects(veto, a, b)).map(({ name }) => name)).toEqual([]);
});

describe("strictness", () => {
  const [a, b] = ["How do I fix a bike?", "How do I fix a common bike?"];
  test("balanced passes over words of little weight, strict does not", () => {
    expect(objects(CONTENT, a, b)).toBe(true);
    expect(objects(CONTENT, a, b, { ...strict, strictness: "balanced" })).toBe(false);
    expect(objects(CONTENT, a, "How do I fix a red bike?", { ...strict, strictness: "balanced" })).toBe(true);
  });

  test("loose weighs words by their rarity, and a rare word must still be in both", () => {
    const rarity = (word: string) => (word === "zebra" || word === "gnu" ? 1 : 0.1);
    const loose = { strictness: "loose", rarity } as const;
    const long = "What should I feed the animal that lives in my big green garden";
    expect(objects(CONTENT, `${long}?`, `${long} there?`, loose)).toBe(false);
    expect(objects(NAMES, "what do i feed a zebra", "what do i feed a gnu", loose)).toBe(true);
  });
});

test("a question is itself, and two questions are the same or not in either order", () => {
  const text = fc
    .array(
      fc.constantFrom(
        "what",
        "is",
        "the",
        "Rome",
        "5",
        "km",
        "not",
        "from",
        "to",
        "'s",
        "?",
        ",",
        '"x"',
        "`y`",
        "how",
        "do",
        "I",
        "的",
        "-",
      ),
      { minLength: 1, maxLength: 12 },
    )
    .map((words) => words.join(" "));
  fc.assert(
    fc.property(text, text, (a, b) => {
      const [left, right] = [questionOf(a), questionOf(b)];
      expect(objectionsTo(left, left, strict)).toEqual([]);
      expect(objectionsTo(left, right, strict)).toEqual(objectionsTo(right, left, strict));
    }),
  );
});

test("no pair of the development set is a false hit", () => {
  const file = join(packageRoot(), "test/data/semantic-pairs-development.jsonl");
  const pairs = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { a: string; b: string; same: boolean });
  const wrong = pairs.filter(
    ({ a, b, same }) => (objectionsTo(questionOf(a), questionOf(b), strict).length === 0) !== same,
  );
  expect(wrong).toEqual([]);
});
