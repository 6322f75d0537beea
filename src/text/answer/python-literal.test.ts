import fc from "fast-check";
import { expect, it } from "vitest";
import { jsonOfPython } from "./python-literal.js";

it.each([
  ["None", null],
  ["True", true],
  ["false", false],
  ["-3", -3],
  ["1.", 1],
  ["-.5e2", -50],
  ["'it\\'s'", "it's"],
  ['"a\\n\\x41\\u00e9\\U0001f600\\q"', "a\nAé😀\\q"],
  ['"\\ud83d\\ude00"', "😀"],
  ["'a\nb'", "a\nb"],
  ["'say \"hi\"'", 'say "hi"'],
  ["[1, 'a', None,]", [1, "a", null]],
  ["(1, (2,))", [1, [2]]],
  ["{'a': [True], \"b\": {}}", { a: [true], b: {} }],
  ["[]", []],
])("%s is JSON", (text, value) => {
  expect(JSON.parse(jsonOfPython(text)!)).toEqual(value);
});

it.each([
  "",
  "yes",
  "1 2",
  "[1",
  "[1 2]",
  "[,]",
  "{1: 2}",
  "{'a'}",
  "{'a': }",
  "{'a': 1, 'b'}",
  "'a",
  "'a'b",
  "'\\u12'",
  "0x1f",
  "01",
  "1e",
  "NaN",
  "f(1)",
  "]",
])("%s is none", (text) => {
  expect(jsonOfPython(text)).toBeUndefined();
});

it("every JSON value is such a literal, and any text is JSON or nothing", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.oneof(fc.boolean()), (value, isSpread) => {
      const text = JSON.stringify(value, null, isSpread ? 2 : 0);
      expect(JSON.parse(jsonOfPython(text)!)).toEqual(JSON.parse(text));
    }),
    { numRuns: 300, seed: 20261130 },
  );
  const scrap = fc.constantFrom(
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    ":",
    "'",
    '"',
    "\\",
    "u",
    "1",
    ".",
    "-",
    "True",
    " ",
  );
  fc.assert(
    fc.property(fc.array(scrap, { maxLength: 12 }), (scraps) => {
      const json = jsonOfPython(scraps.join(""));
      if (json !== undefined) JSON.parse(json);
    }),
    { numRuns: 3000, seed: 20261130 },
  );
});
