import { expect, test } from "vitest";
import { compare, pairItems, powerText } from "./compare.js";
import { type ItemResult, resultOf } from "./run-task.js";

const item = (question: string, exact: boolean, score = Number(exact)): ItemResult => ({
  prompt: [{ role: "user", content: question }],
  answer: "",
  expected: "yes",
  score,
  exact,
  numPromptTokens: 1,
  numOutputTokens: 1,
  end: "stop",
});
const numbered = (count: number, isRight: (index: number) => boolean): ItemResult[] =>
  Array.from({ length: count }, (_, index) => item(`q${index}`, isRight(index)));

test("items are paired by prompt, expected answer and task, in any order; others are counted", () => {
  const before = [resultOf("a", [item("1", true), item("2", false)], 1), resultOf("b", [item("1", false)], 1)];
  const after = [resultOf("b", [item("1", true)], 1), resultOf("a", [item("2", true), item("3", true)], 1)];
  const { pairs, numUnpaired } = pairItems(before, after);
  expect(pairs.map(({ task, before: was, after: is }) => [task, was.exact, is.exact])).toEqual([
    ["b", false, true],
    ["a", false, true],
  ]);
  expect(numUnpaired).toBe(2);
});

test("tasks and the whole are compared, with the verdict over the whole", () => {
  const before = [
    resultOf(
      "a",
      numbered(100, () => true),
      1,
    ),
    resultOf(
      "b",
      numbered(100, () => false),
      1,
    ),
  ];
  const after = [
    resultOf(
      "a",
      numbered(100, (index) => index >= 20),
      1,
    ),
    resultOf(
      "b",
      numbered(100, (index) => index < 5),
      1,
    ),
  ];
  const { tasks, overall, verdict, isSequential } = compare(before, after, 0.02);
  expect(tasks.map(({ task, drop, numLost, numWon }) => ({ task, drop, numLost, numWon }))).toEqual([
    { task: "a", drop: 0.2, numLost: 20, numWon: 0 },
    { task: "b", drop: -0.05, numLost: 0, numWon: 5 },
  ]);
  expect(overall).toMatchObject({ numItems: 200, before: 0.5, after: 0.425, drop: 0.075 });
  expect({ verdict, isSequential }).toEqual({ verdict: "fails", isSequential: false });
  expect(overall.p).toBeLessThan(0.01);
});

test("an open verdict tells how many more items are needed; too few flips are not believed to be none", () => {
  const before = [
    resultOf(
      "a",
      numbered(50, () => true),
      1,
    ),
  ];
  const { verdict, numMoreItems } = compare(before, before, 0.02);
  expect(verdict).toBe("undecided");
  expect(numMoreItems).toBeGreaterThan(100);
  // A drop near the margin stays undecided although the items suffice for an equal model.
  const after = [
    resultOf(
      "a",
      numbered(4000, (index) => index >= 80),
      1,
    ),
  ];
  const near = compare(
    [
      resultOf(
        "a",
        numbered(4000, () => true),
        1,
      ),
    ],
    after,
    0.02,
  );
  expect(near).toMatchObject({ verdict: "undecided" });
  expect(near.numMoreItems).toBeUndefined();
});

test("a small drop that left a look open by chance asks for more items, also where equal models would have had enough", () => {
  const answers = (isRight: (index: number) => boolean) => [resultOf("a", numbered(400, isRight), 1)];
  const { verdict, numMoreItems } = compare(
    answers(() => true),
    answers((index) => index >= 4),
    0.02,
  );
  expect(verdict).toBe("undecided");
  expect(numMoreItems).toBeGreaterThan(100);
});

test("the power is told before the items are asked", () => {
  expect(powerText(837, 0.02)).toMatch(/^837 items .* 80 % if 5 % of the answers flip, 5\d % if 10 % do/);
});
