import { expect, test } from "vitest";
import { formatBytes, formatCount, formatDuration, formatTable, jsonText } from "./format.js";

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

test("JSON has no rounding noise, and its integers, texts and nulls stay", () => {
  const record = {
    ms: 15.99330400000008,
    third: 1 / 3,
    count: 12_345_678_901,
    small: 1.5e-12,
    text: "0.1",
    none: null,
  };
  expect(jsonText(record)).toBe(
    '{"ms":15.993304,"third":0.333333333,"count":12345678901,"small":1.5e-12,"text":"0.1","none":null}',
  );
});
