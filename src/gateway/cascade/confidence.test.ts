import { describe, expect, test } from "vitest";
import { uniform } from "../../core/random.js";
import { addToAlarm, addToMean, evidenceOf, meanOf, newAlarm, newMean } from "./confidence.js";

describe("the confidence sequence", () => {
  test.each([0.005, 0.05, 0.5])("a mean of %d is missed at some time in at most 5 % of runs", (mean) => {
    const random = uniform(7);
    let numMissed = 0;
    for (let run = 0; run < 400; run++) {
      const state = newMean();
      let isMissed = false;
      for (let i = 0; i < 500; i++) {
        addToMean(state, Number(random() < mean), 0.05);
        const { low, high } = meanOf(state, 0.05);
        if (low > mean || high < mean) isMissed = true;
      }
      if (isMissed) numMissed++;
    }
    expect(numMissed / 400).toBeLessThanOrEqual(0.05);
  });

  test("it narrows around the plain mean", () => {
    const random = uniform(3);
    const state = newMean();
    for (let i = 0; i < 5000; i++) addToMean(state, Number(random() < 0.02), 0.05);
    const { mean, low, high } = meanOf(state, 0.05);
    expect(mean).toBeCloseTo(0.02, 2);
    expect(high - low).toBeLessThan(0.03);
    expect(low).toBeLessThanOrEqual(mean);
    expect(high).toBeGreaterThanOrEqual(mean);
  });
});

describe("the alarm", () => {
  const firstAlarm = (random: () => number, mean: number, bound: number, limit: number, good = 0): number => {
    const state = newAlarm();
    for (let i = 0; i < good; i++) addToAlarm(state, Number(random() < bound / 4), bound);
    for (let i = 1; i <= limit; i++) {
      addToAlarm(state, Number(random() < mean), bound);
      if (evidenceOf(state) >= 1000) return i;
    }
    return Number.POSITIVE_INFINITY;
  };

  test("at the bound it comes once in at least a thousand values", () => {
    const random = uniform(11);
    const runs = Array.from({ length: 200 }, () => Math.min(5000, firstAlarm(random, 0.05, 0.05, 5000)));
    // Runs that were cut count as 5,000, so the true mean is greater still.
    expect(runs.reduce((sum, each) => sum + each, 0) / runs.length).toBeGreaterThan(1000);
  });

  test.each([
    [0.5, 30],
    [0.2, 110],
    [1, 8],
  ])("a loss of %d is noticed within %d values on average, even after a good year", (mean, within) => {
    const random = uniform(5);
    const delays = Array.from({ length: 200 }, () => firstAlarm(random, mean, 0.05, 10_000, 3000));
    expect(delays.reduce((sum, each) => sum + each, 0) / delays.length).toBeLessThan(within);
  });
});
