import { expect, test } from "vitest";
import { lastingSpeeds } from "./machine-speeds.js";

test("arithmetic's middle and memory's lower quartile, whatever the order; of one reading that one", () => {
  const reading = (bytesPerS: number, narrow: number) => ({ bytesPerS, narrow, wide: 2 * narrow, float: 3 * narrow });
  const readings = [reading(80, 5), reading(48, 9), reading(79, 1), reading(47, 6)];
  expect(lastingSpeeds(readings)).toEqual({ bytesPerS: 48, narrow: 5.5, wide: 11, float: 16.5 });
  expect(lastingSpeeds(readings.slice(0, 1))).toEqual(readings[0]);
});
