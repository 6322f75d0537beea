import { expect, test } from "vitest";
import { formatBytes, formatCount, formatDuration, formatUsd, parseByteSize, parseDurationMs } from "./quantities.js";

test.each([
  ["250ms", 250],
  ["5s", 5000],
  ["1.5m", 90_000],
  ["2h", 7_200_000],
  ["0s", 0],
  ["5", undefined],
  ["-5s", undefined],
  ["5 s", undefined],
  ["25000h", undefined],
  ["", undefined],
])("the duration %j is %j ms", (text, expected) => {
  expect(parseDurationMs(text)).toBe(expected);
});

test.each([
  ["8GiB", 2 ** 33],
  ["24G", 24 * 2 ** 30],
  ["24g", 24e9],
  ["0", undefined],
  ["8GB/s", undefined],
  ["1e9", undefined],
])("the size %j is %j bytes", (text, expected) => {
  expect(parseByteSize(text)).toBe(expected);
});

test.each([
  [0.5814814, "$0.58"],
  [0.0989, "$0.0989"],
  [1234.5, "$1,235"],
  [99.999, "$100.00"],
  [Number.POSITIVE_INFINITY, "$∞"],
])("%d dollars are %s", (dollars, text) => {
  expect(formatUsd(dollars)).toBe(text);
});

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
