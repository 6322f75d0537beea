import { expect, test } from "vitest";
import { parseByteSize, parseDurationMs } from "./quantities.js";

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
