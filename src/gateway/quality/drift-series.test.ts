import fc from "fast-check";
import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import { addToSeries, type Drift, expectedOf, isLearned, newSeries } from "./drift-series.js";

const DAY_MS = 86_400_000;

interface Traffic {
  readonly seed: number;
  readonly samplesPerDay: number;
  readonly days: number;
  readonly shareAt: (day: number) => number;
  readonly threshold: number;
}

function drifts({
  seed,
  samplesPerDay,
  days,
  shareAt,
  threshold,
}: Traffic): readonly (Drift & { readonly day: number })[] {
  const rng = new TestRng(seed);
  const state = newSeries();
  return Array.from({ length: samplesPerDay * days }, (_, i) => {
    const day = i / samplesPerDay;
    const drift = addToSeries(state, Number(rng.chance(shareAt(day))), day * DAY_MS, threshold);
    return drift && { ...drift, day };
  }).filter((drift) => drift !== undefined);
}

test("in quiet traffic there is at most one alarm in as many samples as the threshold says", () => {
  // A low threshold, so that alarms can be counted.
  const threshold = 2000;
  const traffic = { samplesPerDay: 2000, days: 30, shareAt: () => 0.05, threshold };
  const alarms = [1, 2, 3, 4, 5].map((seed) => drifts({ ...traffic, seed }).length);
  const most = (5 * traffic.samplesPerDay * traffic.days) / threshold;
  expect(alarms.reduce((sum, each) => sum + each, 0)).toBeLessThan(most);
  // The bound means something: a detector that never raises an alarm would keep it too.
  const damaged = drifts({ ...traffic, seed: 1, shareAt: (day) => (day > 5 ? 0.1 : 0.05) });
  expect(damaged.length).toBeGreaterThan(10);
});

test("a rise is found soon, with its beginning and both means, and again while it lasts", () => {
  const shareAt = (day: number) => (day >= 7 ? 0.1 : 0.03);
  const found = drifts({ seed: 3, samplesPerDay: 3000, days: 9, shareAt, threshold: 1e7 });
  const [first] = found;
  expect(found.length).toBeGreaterThan(2);
  expect(first!.day - 7).toBeGreaterThan(0);
  expect(first!.day - 7).toBeLessThan(0.5);
  expect(Math.abs(first!.sinceMs / DAY_MS - 7)).toBeLessThan(0.1);
  expect(first!.expected).toBeCloseTo(0.03, 2);
  expect(first!.mean).toBeGreaterThan(0.06);
});

test("a fall, and a rise that ends before it counts, raise no alarm", () => {
  const threshold = 1e7;
  expect(
    drifts({ seed: 4, samplesPerDay: 2000, days: 20, shareAt: (day) => (day > 9 ? 0.01 : 0.05), threshold }),
  ).toEqual([]);
  const brief = (day: number) => (day > 9 && day < 9.01 ? 0.3 : 0.05);
  expect(drifts({ seed: 4, samplesPerDay: 2000, days: 20, shareAt: brief, threshold })).toEqual([]);
});

test("nothing is said before a day and five hundred samples are known", () => {
  const state = newSeries();
  for (let i = 0; i < 499; i++) addToSeries(state, 0, i * DAY_MS, 10);
  expect(isLearned(state, 499 * DAY_MS)).toBe(false);
  const quick = newSeries();
  for (let i = 0; i < 5000; i++) expect(addToSeries(quick, Number(i > 2000), i, 10)).toBeUndefined();
  expect(isLearned(quick, 5000)).toBe(false);
});

test("every state is finite, survives JSON and counts each sample once", () => {
  const values = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 600, maxLength: 900 });
  fc.assert(
    fc.property(values, fc.integer({ min: 2, max: 1_000_000 }), (all, threshold) => {
      const state = newSeries();
      const given = all.map((x, i) => [x, i * (DAY_MS / 200)] as const);
      let numDropped = 0;
      for (const [x, atMs] of given) numDropped += addToSeries(state, x, atMs, threshold)?.count ?? 0;
      expect(JSON.parse(JSON.stringify(state))).toEqual(state);
      expect(Number.isFinite(expectedOf(state))).toBe(true);
      expect(state.baseline.count + state.recent.count + numDropped).toBe(all.length);
    }),
    { numRuns: 30 },
  );
});
