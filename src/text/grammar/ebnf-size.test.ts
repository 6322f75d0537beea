import { expect, test } from "vitest";
import { assertCompilable, MAX_ELEMENTS } from "./ebnf-size.js";

const N = 200_000;

// Each of these took from minutes to endless time before a piece's parts excluded each other.
test.each([
  ["a repetition of spaces without an end", `root ::= "a"{${" ".repeat(N)}x`],
  ["a repetition of digits and spaces without an end", `root ::= "a"{${"1 ".repeat(N / 2)}x`],
  ["repetitions in each other", `root ::= "a"${"{ ".repeat(N / 2)}`],
  ["classes without an end", `root ::= ${"[".repeat(N)}`],
  ["a literal of escaped quotes without an end", `root ::= "${'\\"'.repeat(N / 2)}`],
])("a grammar with %s is read in a time in proportion to its length", (_, grammar) => {
  expect(() => assertCompilable(grammar)).not.toThrow();
});

test.each([
  ["{1000}", 1000],
  ["{ 1000 }", 1000],
  ["{1000,}", 1000],
  ["{,1000}", 1000],
  ["{1 , 1000}", 1000],
  ["{}", 1],
])("the repetition %s counts as %i", (repetition, count) => {
  const grammarOf = (length: number): string => `root ::= "${"a".repeat(length)}"${repetition}`;
  // The rule's name is one element.
  const most = Math.floor((MAX_ELEMENTS - 1) / count);
  expect(() => assertCompilable(grammarOf(most))).not.toThrow();
  expect(() => assertCompilable(grammarOf(most + 1))).toThrow("elements once its repetitions are written out");
});
