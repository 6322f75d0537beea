import { expect, test } from "vitest";
import { BudgetWait } from "./budget-wait.js";

const MINUTE = 60_000;

test("lines look again after a quarter of a second, or when a line of the batch has ended", () => {
  const wait = new BudgetWait();
  expect(wait.mayWait(1000, true)).toBe(true);
  expect(wait.untilMs).toBe(1250);
  wait.settled();
  expect(wait.untilMs).toBe(0);
});

test("other requests are waited for ten minutes, lines of the batch as long as they take", () => {
  const wait = new BudgetWait();
  expect([0, 11 * MINUTE].map((nowMs) => wait.mayWait(nowMs, true))).toEqual([true, true]);
  const alone = [12, 21.9, 22, 23].map((minutes) => wait.mayWait(minutes * MINUTE, false));
  expect(alone).toEqual([true, true, false, false]);
  wait.settled();
  expect(wait.mayWait(24 * MINUTE, false)).toBe(true);
});
