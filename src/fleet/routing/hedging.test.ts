import fc from "fast-check";
import { expect, test } from "vitest";
import { Hedging } from "./hedging.js";

test("the extra load is at most 5 %, beyond a burst", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), (numRequests) => {
      const hedging = new Hedging();
      let numHedged = 0;
      for (let i = 0; i < numRequests; i++) {
        hedging.requested("m");
        if (!hedging.mayHedge("m", 0)) continue;
        hedging.hedged("m");
        numHedged++;
      }
      expect(numHedged).toBeLessThanOrEqual(10 + 0.05 * numRequests + 1e-6);
      expect(numHedged).toBeGreaterThan(Math.min(numRequests, 9 + 0.05 * numRequests) - 2);
    }),
    { numRuns: 30 },
  );
});

test("busy instances get nothing twice", () => {
  const hedging = new Hedging();
  expect([0.7, 0.71, 2].map((utilisation) => hedging.mayHedge("m", utilisation))).toEqual([true, false, false]);
});

test("the delay is the 95th percentile of recent first bytes of prompts of that size", () => {
  const hedging = new Hedging();
  expect(hedging.delayMs("m", 100)).toBeUndefined();
  for (let ms = 1; ms <= 100; ms++) hedging.observe("m", 100, ms);
  expect(hedging.delayMs("m", 100)).toBe(95);
  expect(hedging.delayMs("m", 130)).toBe(95);
  expect(hedging.delayMs("m", 5000)).toBeUndefined();
  expect(hedging.delayMs("other", 100)).toBeUndefined();
  // Old samples drop out.
  for (let i = 0; i < 200; i++) hedging.observe("m", 100, 500);
  expect(hedging.delayMs("m", 100)).toBe(500);
});

test("a little is not enough, and nothing is hedged at once", () => {
  const hedging = new Hedging();
  for (let i = 0; i < 39; i++) hedging.observe("m", 10, 1);
  expect(hedging.delayMs("m", 10)).toBeUndefined();
  hedging.observe("m", 10, 1);
  expect(hedging.delayMs("m", 10)).toBe(5);
});
