import fc from "fast-check";
import { expect, test } from "vitest";
import { formatCost, formatDollars, parseDollars } from "./money.js";

test("every amount is read as it is written", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 18n - 1n }), (amount) => {
      expect(parseDollars(formatDollars(amount))).toBe(amount);
    }),
  );
  expect([formatDollars(0n), formatDollars(10_000_000_000n), formatCost(-1500n)]).toEqual(["0", "10", "-0.000001500"]);
  expect([formatDollars(-1n), formatDollars(12_500_000_000n)]).toEqual(["-0.000000001", "12.5"]);
});

test.each([
  "",
  ".5",
  "1.",
  "1e3",
  "-1",
  "1.0000000001",
  "1234567890",
  "0x1",
  " 1",
  "NaN",
])("%j is no amount", (text) => {
  expect(parseDollars(text)).toBeUndefined();
});
