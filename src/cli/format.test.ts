import { expect, test } from "vitest";
import { formatBytes, formatCount, formatDuration, formatTable } from "./format.js";

test("sizes in binary units with three figures", () => {
  expect([0, 1023, 1536, 10 * 2 ** 20, 3 * 2 ** 40].map(formatBytes)).toEqual([
    "0 B",
    "1023 B",
    "1.50 KiB",
    "10.0 MiB",
    "3.00 TiB",
  ]);
});

test("counts as model cards write them", () => {
  expect([999, 260_000, 2_885_888, 1_100_000_000].map(formatCount)).toEqual(["999", "260.00K", "2.89M", "1.10B"]);
});

test("durations", () => {
  expect([0.4, 999, 2500].map(formatDuration)).toEqual(["0 ms", "999 ms", "2.50 s"]);
});

test("columns line up and lines have no trailing spaces", () => {
  expect(formatTable([["a", "long"], ["longer", "b"], ["c"]])).toBe("a       long\nlonger  b\nc");
});
