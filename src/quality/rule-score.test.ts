import { expect, test } from "vitest";
import { type Rule, scoreRules } from "./rule-score.js";

const cases: readonly (readonly [Rule, kept: string, broken: string])[] = [
  [{ rule: "words", min: 2, max: 3 }, "Two words — here", "one"],
  [{ rule: "words", max: 3 }, "one two three", "one two three four"],
  [{ rule: "lines", min: 2, max: 2 }, "a\n\nb", "a\nb\nc"],
  [{ rule: "bullets", min: 2, max: 2 }, "Here:\n- a\n* b", "- a\nb"],
  [{ rule: "lowercase" }, "all small, 3 times", "Not small"],
  [{ rule: "uppercase" }, "ALL GREAT", "ALL great"],
  [{ rule: "json" }, '```json\n{"a": 1}\n```', "{a: 1}"],
  [{ rule: "begins", text: "Dear" }, "  Dear Ada", "My dear"],
  [{ rule: "ends", text: "THE END" }, "So it was. THE END\n", "the end of it"],
  [{ rule: "contains", text: "fox", min: 2, max: 2 }, "A fox saw a FOX", "a fox"],
  [{ rule: "contains", text: ",", max: 0 }, "none here", "one, here"],
  [{ rule: "contains", text: "fox" }, "the foxes", "the dogs"],
];

test.each(cases)("%o", (rule, kept, broken) => {
  expect(scoreRules([rule], kept)).toEqual({ score: 1, exact: true });
  expect(scoreRules([rule], broken)).toMatchObject({
    score: 0,
    exact: false,
    note: expect.stringContaining("expected"),
  });
});

test("the score is the share of the rules that are kept", () => {
  const rules: Rule[] = [{ rule: "lowercase" }, { rule: "words", max: 2 }];
  expect(scoreRules(rules, "only three words")).toEqual({
    score: 0.5,
    exact: false,
    note: "expected at most 2 words, got 3",
  });
});

test("an empty answer keeps no rule", () => {
  expect(scoreRules([{ rule: "lowercase" }], " \n")).toMatchObject({ score: 0, exact: false });
});
