import { expect, test } from "vitest";
import { BackgroundPace } from "./background-pace.js";

function learn(startMs: number, rowMs: number, sizes: readonly number[] = [1, 4, 2, 8, 3, 1, 16]): BackgroundPace {
  const pace = new BackgroundPace();
  for (let round = 0; round < 20; round++) for (const size of sizes) pace.observe(size, startMs + rowMs * size);
  return pace;
}

test.each([
  ["rows cost as much as the step itself: the fewest", 1, 1, 4],
  ["a step costs as much as ten rows", 10, 1, 12],
  ["rows cost next to nothing: the most", 50, 0.1, 32],
  ["rows cost nothing", 5, 0, 32],
])("%s", (_, startMs, rowMs, expected) => {
  expect(learn(startMs, rowMs).tokens(1000)).toBe(expected);
});

test("at first, and while all steps are of one size, the fewest; never more than asked", () => {
  expect(new BackgroundPace().tokens(100)).toBe(4);
  expect(learn(10, 1, [5]).tokens(100)).toBe(4);
  expect(learn(10, 1).tokens(3)).toBe(3);
});

test("it follows a change", () => {
  const pace = learn(10, 1);
  for (let i = 0; i < 500; i++) pace.observe([1, 2, 4, 8][i % 4]!, 2 + 2 * [1, 2, 4, 8][i % 4]!);
  expect(pace.tokens(100)).toBe(4);
  // Steps of many prompts teach nothing about rows.
  pace.observe(500, 1);
  expect(pace.tokens(100)).toBe(4);
});
