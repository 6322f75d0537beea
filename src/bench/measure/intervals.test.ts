import fc from "fast-check";
import { expect, test } from "vitest";
import { Random } from "../workload/random.js";
import { geometricMean, pairedDifference, pairedRatio, tQuantile, variation } from "./intervals.js";

const positive = fc.double({ min: 1e-3, max: 1e6, noNaN: true });

test("t decreases towards the normal quantile, without a step at the end of its table", () => {
  const all = Array.from({ length: 200 }, (_, i) => tQuantile(i + 1));
  expect(all.every((value, i) => i === 0 || value < all[i - 1]!)).toBe(true);
  expect(tQuantile(31)).toBeCloseTo(2.0395, 3);
  expect(tQuantile(120)).toBeCloseTo(1.9799, 3);
});

test("the reverse ratio and its interval are the inverse", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(positive, positive), { minLength: 3, maxLength: 12 }), (pairs) => {
      const [a, b] = [pairs.map(([x]) => x), pairs.map(([, y]) => y)];
      const [there, back] = [pairedRatio(a, b)!, pairedRatio(b, a)!];
      expect(there.value * back.value).toBeCloseTo(1, 6);
      expect(there.low! * back.high!).toBeCloseTo(1, 6);
      expect(there.low!).toBeLessThanOrEqual(there.value);
      expect(there.high!).toBeGreaterThanOrEqual(there.value);
    }),
  );
});

test("common drift does not widen the interval", () => {
  const drift = [1, 1.5, 0.7, 2];
  const { value, low, high } = pairedRatio(
    drift.map((speed) => 2 * speed),
    drift,
  )!;
  for (const each of [value, low, high]) expect(each).toBeCloseTo(2, 9);
});

test("the interval covers the true ratio in about 95 of 100 experiments", () => {
  const random = new Random(5);
  const noisy = (scale: number) => Array.from({ length: 5 }, () => scale * Math.exp(0.1 * random.normal()));
  let numCovered = 0;
  for (let experiment = 0; experiment < 1000; experiment++) {
    const { low, high } = pairedRatio(noisy(3), noisy(2))!;
    if (low! <= 1.5 && 1.5 <= high!) numCovered++;
  }
  expect(numCovered).toBeGreaterThan(925);
  expect(numCovered).toBeLessThan(975);
});

test("one or two runs have no interval, no runs have no value, and equal runs have no variation", () => {
  expect(pairedRatio([2, 8], [1, 1])).toEqual({ value: expect.closeTo(4), numRuns: 2 });
  expect(geometricMean([])).toBeUndefined();
  expect(geometricMean([7])).toEqual({ value: expect.closeTo(7), numRuns: 1 });
  expect(variation([4, 4, 4])).toBe(0);
  expect(variation([9, 11])).toBeCloseTo(Math.SQRT2 / 10);
});

test("the interval of a paired difference covers the truth in about 95 of 100 experiments, whatever noise the pairs share", () => {
  const random = new Random(6);
  let numCovered = 0;
  for (let experiment = 0; experiment < 1000; experiment++) {
    const shared = Array.from({ length: 12 }, () => 100 * random.normal());
    const [a, b] = [0.3, 0].map((shift) => shared.map((each) => each + shift + random.normal()));
    const { low, high } = pairedDifference(a!, b!);
    if (low! <= 0.3 && high! >= 0.3) numCovered++;
  }
  expect(numCovered).toBeGreaterThan(930);
  expect(numCovered).toBeLessThan(970);
});

test("too few pairs, or equal differences, have no interval", () => {
  expect(pairedDifference([1, 2], [0, 4])).toEqual({ value: -0.5, numPairs: 2 });
  expect(pairedDifference([1, 2, 3], [0, 1, 2])).toEqual({ value: 1, numPairs: 3 });
});
