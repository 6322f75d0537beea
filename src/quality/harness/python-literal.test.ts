import { expect, test } from "vitest";
import { pythonLiteral } from "./python-literal.js";

test.each<readonly [string, unknown]>([
  ["['a', \"it's\", 'b\\n\\'', 'é\\u00e9']", ["a", "it's", "b\n'", "éé"]],
  ["[1, -2.5, True, None, (1, 'x'), ('y')]", [1, -2.5, true, null, [1, "x"], "y"]],
  [" [ ] ", []],
  ["['a' 'b',]", ["ab"]],
  ["'\\q'", "\\q"],
])("reads %s", (text, value) => {
  expect(pythonLiteral(text)).toEqual({ value });
});

test.each([
  "[",
  "[1 2]",
  "['a",
  "[a]",
  "1]",
  "",
  "[,]",
  "{'a': 1}",
  `${"[".repeat(5000)}`,
  "'\\UFFFFFFFF'",
])("is none: %s", (text) => {
  expect(pythonLiteral(text)).toBeUndefined();
});
