import fc from "fast-check";
import { expect, test } from "vitest";
import { chooseSplit, splitsOf } from "./instance-plan.js";

test.each([
  [4, 8, ["1×4", "2×2", "4×1"]],
  [6, 3, ["1×6", "2×3", "3×2"]],
  [7, 32, ["1×7", "7×1"]],
  [8, 1, ["1×8"]],
  [1, 16, ["1×1"]],
])("%d cores for %d concurrent requests", (cores, concurrency, expected) => {
  expect(splitsOf(cores, concurrency).map((split) => `${split.instances}×${split.perInstance}`)).toEqual(expected);
});

const measured = (...speeds: readonly number[]) =>
  speeds.map((tokensPerS, i) => ({ instances: 2 ** i, perInstance: 8 / 2 ** i, tokensPerS }));

test.each([
  ["more instances win where they are faster", [100, 130, 150], 4],
  ["a few per cent are noise", [100, 104, 103], 1],
  ["a step that gains nothing does not hide one that does", [100, 101, 140], 4],
  ["one is best where splitting costs", [100, 80, 50], 1],
] as const)("%s", (_, speeds, instances) => {
  expect(chooseSplit(measured(...speeds))?.instances).toBe(instances);
  expect(chooseSplit(measured(...speeds).reverse())?.instances).toBe(instances);
});

test("without measurements there is no choice", () => {
  expect(chooseSplit([])).toBeUndefined();
});

test("the choice is slower than any other by at most the noise", () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 1, max: 1e4, noNaN: true }), { minLength: 1, maxLength: 6 }), (speeds) => {
      expect(chooseSplit(measured(...speeds))!.tokensPerS * 1.0501).toBeGreaterThanOrEqual(Math.max(...speeds));
    }),
  );
});
