import fc from "fast-check";
import { expect, test } from "vitest";
import { arrivalTimes, clientStarts } from "./load.js";

const open = (ratePerS: number, burstiness: number | undefined) => ({ kind: "open", ratePerS, burstiness }) as const;
const BOUNDS = { numSessions: 4000, durationMs: Number.POSITIVE_INFINITY };

function gapsOf(times: readonly number[]): { mean: number; variation: number } {
  const gaps = times.slice(1).map((atMs, i) => atMs - times[i]!);
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length;
  return { mean, variation: Math.sqrt(variance) / mean };
}

test("even arrivals have exactly equal gaps", () => {
  expect(arrivalTimes(open(4, undefined), { numSessions: 3, durationMs: 1e9 }, 1)).toEqual([0, 250, 500]);
  expect(arrivalTimes(open(4, undefined), { numSessions: 99, durationMs: 1000 }, 1)).toHaveLength(4);
});

test.each([
  0.25, 1, 4,
])("gaps of burstiness %f have the rate's mean and 1 ÷ its root as coefficient of variation", (burstiness) => {
  const { mean, variation } = gapsOf(arrivalTimes(open(20, burstiness), BOUNDS, 7));
  expect(mean).toBeGreaterThan(45);
  expect(mean).toBeLessThan(55);
  expect(variation * Math.sqrt(burstiness)).toBeGreaterThan(0.9);
  expect(variation * Math.sqrt(burstiness)).toBeLessThan(1.1);
});

test("times ascend from 0 within both limits, and depend on the seed only", () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.integer({ min: 1, max: 50 }),
      fc.integer({ min: 1, max: 3000 }),
      (seed, count, durationMs) => {
        const bounds = { numSessions: count, durationMs };
        const times = arrivalTimes(open(30, 1), bounds, seed);
        expect(times[0]).toBe(0);
        expect(times.length).toBeLessThanOrEqual(count);
        expect(times.every((atMs, i) => atMs < durationMs && atMs >= (times[i - 1] ?? 0))).toBe(true);
        expect(arrivalTimes(open(30, 1), bounds, seed)).toEqual(times);
      },
    ),
  );
});

test("a trace's times are used unchanged, up to the limits", () => {
  const load = { kind: "replay", atMs: [0, 5, 900, 2000] } as const;
  expect(arrivalTimes(load, { numSessions: 3, durationMs: 500 }, 0)).toEqual([0, 5]);
});

test("clients begin evenly over the ramp", () => {
  expect(clientStarts({ kind: "closed", concurrency: 4, rampMs: 100 })).toEqual([0, 25, 50, 75]);
});
