import { expect, test } from "vitest";
import { wilsonInterval } from "./wilson.js";

test("agrees with published values", () => {
  const [low, high] = wilsonInterval(81, 263);
  expect([low, high].map((bound) => bound.toFixed(4))).toEqual(["0.2553", "0.3662"]);
});

test("has a width at the ends and stays within 0 and 1", () => {
  expect(wilsonInterval(0, 0)).toEqual([0, 1]);
  expect(wilsonInterval(0, 10)[0]).toBe(0);
  expect(wilsonInterval(0, 10)[1]).toBeCloseTo(0.2775, 4);
  expect(wilsonInterval(10, 10)[0]).toBeCloseTo(0.7225, 4);
  expect(wilsonInterval(10, 10)[1]).toBeCloseTo(1, 12);
});
