import { expect, test } from "vitest";
import { oneLine } from "./one-line.js";

test("a name is one line without controls and marks of direction, and has an end", () => {
  expect(oneLine(" a\n\tb\u2028c ")).toBe("a b c");
  expect(oneLine("\u202Etxt.exe\u2066\u061C\0\x1B[31m")).toBe("txt.exe[31m");
  // Characters that join letters and pictures stay.
  expect(oneLine("👩‍🚀 می‌خواهم")).toBe("👩‍🚀 می‌خواهم");
  expect(oneLine("x".repeat(200))).toBe("x".repeat(200));
  expect(oneLine("x".repeat(1e6))).toBe(`${"x".repeat(199)}…`);
  expect(oneLine("🦊".repeat(5), 3)).toBe("🦊🦊…");
});
