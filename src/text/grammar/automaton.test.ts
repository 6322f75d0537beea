/** Compares automata of single and combined patterns with JavaScript's regular expressions on random texts. */
import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import { accepts, automatonOf } from "./automaton.js";
import { complement } from "./character-set.js";
import { type Language, Languages } from "./language.js";
import { patternLanguage } from "./pattern-language.js";
import { RegexError } from "./regex.js";

const EVERYTHING = complement([]);
const LETTERS = ["a", "b", "c", "1", "é", "😀", "-"];
const ATOMS = ["a", "b", "[ab]", "[^a]", ".", "\\d", "\\w", "[^\\d-]", "😀", "\\p{L}", "é"];

const textOf = (rng: TestRng): string => Array.from({ length: rng.int(0, 7) }, () => rng.pick(LETTERS)).join("");

function patternOf(rng: TestRng, depth: number): string {
  const parts = Array.from({ length: rng.int(1, 3) }, () => {
    const atom = depth > 0 && rng.chance(0.4) ? `(?:${alternativesOf(rng, depth - 1)})` : rng.pick(ATOMS);
    return `${atom}${rng.pick(["", "", "", "?", "*", "+", "{1,2}", "{2}"])}`;
  });
  const look = depth > 0 && rng.chance(0.3) ? `(?${rng.pick(["=", "!"])}${alternativesOf(rng, depth - 1)})` : "";
  return look + parts.join("");
}

function alternativesOf(rng: TestRng, depth: number): string {
  const one = `${rng.pick(["", "", "^"])}${patternOf(rng, depth)}${rng.pick(["", "", "$"])}`;
  return rng.chance(0.3) ? `${one}|${patternOf(rng, depth)}` : one;
}

/** Whether the language contains a text, according to its automaton. */
function decide(languages: Languages, language: Language): (text: string) => boolean {
  const automaton = automatonOf(languages, language, EVERYTHING);
  return (text) => automaton !== undefined && accepts(automaton, text);
}

test("an automaton accepts the texts that all its patterns match, and its complement accepts the others", () => {
  const rng = new TestRng(5);
  let numRead = 0;
  let numKept = 0;
  for (let round = 0; round < 200; round++) {
    const [first, second] = [alternativesOf(rng, 2), alternativesOf(rng, 2)];
    const [min, max] = [rng.int(0, 2), rng.int(2, 5)];
    const languages = new Languages();
    const { anyCharacter } = languages;
    let both: (text: string) => boolean;
    let not: (text: string) => boolean;
    try {
      const [a, b] = [first, second].map((pattern) => patternLanguage(languages, pattern, true)) as [
        Language,
        Language,
      ];
      both = decide(languages, languages.both(a, b, languages.repeat(anyCharacter, min, max)));
      not = decide(languages, languages.not(languages.either(a, b)));
    } catch (thrown) {
      // Lookaheads in unbounded repetitions and a ^ after an optional part are unsupported.
      expect(thrown).toBeInstanceOf(RegexError);
      continue;
    }
    numRead++;
    const [isFirst, isSecond] = [new RegExp(first, "u"), new RegExp(second, "u")];
    for (let i = 0; i < 60; i++) {
      const text = textOf(rng);
      const length = [...text].length;
      const [a, b] = [isFirst.test(text), isSecond.test(text)];
      const expected = a && b && length >= min && length <= max;
      if (expected) numKept++;
      expect(both(text), `${first}  ${second}  ${JSON.stringify(text)}`).toBe(expected);
      expect(not(text), `not ${first}  ${second}  ${JSON.stringify(text)}`).toBe(!a && !b);
    }
  }
  expect(numRead).toBeGreaterThan(70);
  expect(numKept).toBeGreaterThan(200);
});

test.each([
  ["what came long ago", "^(?:a|b)*a(?:a|b){12}$", "has at most 2000 states"],
  ["counts beside counts", "^(?=.{1,1000}b)(?:a{1,50}b){1,50}$", "got more"],
  ["many parts", `^${"a".repeat(3000)}`, "a pattern of at most 3000 parts"],
  ["many ways", `^(?:${"(?:a?b?c?){1,40}d?".repeat(40)})$`, "got more"],
])("a pattern that needs too many states is refused quickly: %s", (_, pattern, message) => {
  const startMs = performance.now();
  const languages = new Languages();
  expect(() => automatonOf(languages, patternLanguage(languages, pattern, true), EVERYTHING)).toThrow(message);
  console.log(`refused after ${Math.round(performance.now() - startMs)} ms`);
});
