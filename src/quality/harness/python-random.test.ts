import { expect, test } from "vitest";
import { PythonRandom } from "./python-random.js";

const upTo = (length: number): number[] => Array.from({ length }, (_, index) => index);

/**
 * The expected numbers are CPython's: r = random.Random(1234); r.sample(range(10), 3); r.sample(range(1000), 4);
 * r.sample(range(80), 8).
 */
test("draws what Python draws, from pools and from many", () => {
  const random = new PythonRandom(1234);
  expect(random.sample(upTo(10), 3)).toEqual([7, 1, 0]);
  expect(random.sample(upTo(1000), 4)).toEqual([92, 932, 965, 961]);
  expect(random.sample(upTo(80), 8)).toEqual([74, 4, 10, 12, 45, 30, 2, 3]);
  for (let round = 0; round < 300; round++) random.sample(upTo(10), 3);
  expect(random.sample(upTo(10), 3)).toEqual([1, 4, 5]);
  expect(new PythonRandom(0).sample(upTo(5), 5)).toEqual([3, 4, 0, 1, 2]);
});
