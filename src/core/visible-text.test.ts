import { expect, test } from "vitest";
import { visible, visibleLines } from "./visible-text.js";

test("control characters are shown, and in texts of lines their ends and tabs stay", () => {
  expect(visible("a\n\u001b[2J\u202e")).toBe("a\\u000a\\u001b[2J\\u202e");
  expect(visibleLines("a\tb\r\n\u001b[2J\nc")).toBe("a\tb\r\n\\u001b[2J\nc");
});
