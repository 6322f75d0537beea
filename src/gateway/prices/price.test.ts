import fc from "fast-check";
import { expect, test } from "vitest";
import { costOf } from "./price.js";

const PRICE = { version: "1", fresh: 3n, cacheRead: 1n, cacheWrite: 4n, output: 15_000_000_000n };
const counts = (fresh: number, output = 0) => ({ fresh, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 });

test("a cost is rounded up to a whole nano-dollar, and nothing costs nothing", () => {
  expect(costOf(counts(0), PRICE)).toBe(0n);
  expect(costOf(counts(1), PRICE)).toBe(1n);
  expect(costOf(counts(333_333), PRICE)).toBe(1n);
  expect(costOf(counts(333_334), PRICE)).toBe(2n);
  expect(costOf(counts(0, 1), PRICE)).toBe(15_000n);
  expect(costOf({ fresh: 0, cacheRead: 1_000_000, cacheWrite: 1_000_000, output: 0, reasoning: 9 }, PRICE)).toBe(5n);
});

test("the cost of a sum is at most the sum of the costs, and less by less than a nano-dollar each", () => {
  const tokens = fc.nat(2 ** 30);
  fc.assert(
    fc.property(tokens, tokens, tokens, tokens, (a, b, c, d) => {
      const parts = costOf(counts(a, b), PRICE) + costOf(counts(c, d), PRICE);
      const whole = costOf(counts(a + c, b + d), PRICE);
      expect(whole <= parts && parts <= whole + 1n).toBe(true);
    }),
  );
});
