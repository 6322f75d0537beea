import { expect, test } from "vitest";
import { sizeText } from "./size-text.js";

test.each([
  [0, "0 B"],
  [0.5, "1 B"],
  [1023, "1023 B"],
  [1536, "1.5 KiB"],
  [300 * 2 ** 20, "300 MiB"],
  [2 ** 30, "1.0 GiB"],
  [2 ** 60, "1048576 TiB"],
] as const)("%d bytes are %s", (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});
