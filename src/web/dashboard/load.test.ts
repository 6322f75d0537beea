import { expect, test } from "vitest";
import { timeAxis } from "./axis.js";
import { answerShare, draftedShare, type Load } from "./load.js";

const load: Load = { atMs: 1000, tokensOutPerS: 100, draftedPerS: 40, promptShare: 0.3, ttft: {}, tpot: {}, queue: {} };

test("shares follow from what the server sends, and are unknown where it sends nothing", () => {
  expect(draftedShare(load)).toBe(0.4);
  // Includes tokens of requests that were cut off.
  expect(draftedShare({ ...load, draftedPerS: 120 })).toBe(1);
  expect(draftedShare({ ...load, tokensOutPerS: 0 })).toBeUndefined();
  expect(answerShare(load)).toBeCloseTo(0.7, 9);
  expect(answerShare({ atMs: 0, ttft: {}, tpot: {}, queue: {} })).toBeUndefined();
});

test("the axis ends with the newest point and is two minutes long at least", () => {
  expect(timeAxis([])).toEqual([-120, 0]);
  expect(timeAxis([600_000])).toEqual([480, 600]);
  expect(timeAxis([590_000, 600_000])).toEqual([480, 600]);
  expect(timeAxis([0, 600_000])).toEqual([0, 600]);
});
