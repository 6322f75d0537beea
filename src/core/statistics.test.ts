import { expect, test } from "vitest";
import { median, summarize } from "./statistics.js";

test("the median is the middle value, or the mean of the two in the middle", () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([10, 1, 2, 100])).toBe(6);
  expect(median([7])).toBe(7);
  expect(median([])).toBeNaN();
});

test("numbers are sorted as numbers, and the caller's list is left alone", () => {
  const values = [9, 80, 700];
  expect(median(values)).toBe(80);
  expect(values).toEqual([9, 80, 700]);
});

test("a summary has the range relative to the median", () => {
  expect(summarize([90, 100, 120])).toEqual({ median: 100, min: 90, max: 120, spread: 0.3 });
  expect(summarize([5])).toEqual({ median: 5, min: 5, max: 5, spread: 0 });
  expect(summarize([0, 0])).toMatchObject({ median: 0, spread: 0 });
});
