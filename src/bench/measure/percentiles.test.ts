import fc from "fast-check";
import { expect, test } from "vitest";
import { Random } from "../workload/random.js";
import {
  distributionOf,
  effectiveSamples,
  PERCENTILES,
  percentile,
  percentileInterval,
  samplesNeeded,
} from "./percentiles.js";

const values = fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 300 });
const quantile = fc.constantFrom(...Object.values(PERCENTILES));
const ascending = (all: readonly number[]) => [...all].sort((a, b) => a - b);

test("a percentile is the smallest sample with a share q of all samples at or below it", () => {
  fc.assert(
    fc.property(values, quantile, (all, q) => {
      const value = percentile(ascending(all), q);
      if (all.length < samplesNeeded(q)) {
        expect(value).toBeUndefined();
        return;
      }
      const notAbove = all.filter((each) => each <= value!).length;
      const below = all.filter((each) => each < value!).length;
      expect(all).toContain(value);
      expect(notAbove).toBeGreaterThanOrEqual(q * all.length - 1e-6);
      expect(below).toBeLessThan(q * all.length);
    }),
  );
});

test("percentiles from too few samples are refused", () => {
  expect(Object.values(PERCENTILES).map(samplesNeeded)).toEqual([2, 10, 20, 100, 1000]);
  const count = (length: number) => distributionOf(Array.from({ length }, (_, i) => i))!.percentiles;
  expect(Object.keys(count(1))).toEqual([]);
  expect(Object.keys(count(99))).toEqual(["p50", "p90", "p95"]);
  expect(count(100)).toEqual({ p50: 49, p90: 89, p95: 94, p99: 98 });
  expect(distributionOf([])).toBeUndefined();
});

test("correlated samples count as fewer, independent samples as nearly all, and none as more than they are", () => {
  const random = new Random(3);
  const independent = Array.from({ length: 2000 }, () => random.normal());
  let last = 0;
  const correlated = independent.map((value) => {
    last = 0.8 * last + value;
    return last;
  });
  expect(effectiveSamples(independent)).toBeGreaterThan(1700);
  expect(effectiveSamples(independent)).toBeLessThanOrEqual(2000);
  // The effective share is (1 − 0.8) ÷ (1 + 0.8).
  expect(effectiveSamples(correlated)).toBeGreaterThan(150);
  expect(effectiveSamples(correlated)).toBeLessThan(300);
  expect(effectiveSamples([5, 5, 5])).toBe(3);
});

test("a percentile's interval covers the truth in about 95 of 100 experiments", () => {
  const random = new Random(11);
  let numCovered = 0;
  for (let experiment = 0; experiment < 400; experiment++) {
    const { low, high } = percentileInterval(
      Array.from({ length: 200 }, () => random.uniform()),
      0.9,
    )!;
    if (low <= 0.9 && 0.9 <= high) numCovered++;
  }
  expect(numCovered).toBeGreaterThan(370);
  expect(percentileInterval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.95)).toBeUndefined();
});
