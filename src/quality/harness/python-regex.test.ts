import { expect, test } from "vitest";
import { findAll, javascriptRegex, withoutMatches } from "./python-regex.js";

/** The expected values are those of re.findall in CPython 3.11. */
test.each<readonly [string, string, readonly unknown[]]>([
  ["#### (\\-?[0-9\\.\\,]+)", "#### -1,200.5 and #### 7", ["-1,200.5", "7"]],
  [
    "(-?[$0-9.,]{2,})|(-?[0-9]+)",
    "it is $40 or 7",
    [
      ["$40", ""],
      ["", "7"],
    ],
  ],
  ["(?i)(?P<x>answer)(?#note)\\s(?P=x)$", "ANSWER answer\n", ["ANSWER"]],
  ["oxed{(.*)}", "boxed{4}", ["4"]],
  ["a{,2}b", "aaab", ["aab"]],
  ["[]a]+", "x]a", ["]a"]],
  ["[^]a]", "]ab", ["b"]],
  ["[[(]\\w+[\\])}]", "[é) (ab]", ["[é)", "(ab]"]],
  ["\\$", "a$", ["$"]],
  [".$", "é\r\u2028", ["\u2028"]],
  ["\\Aa|b\\Z", "ab", ["a", "b"]],
  ["(?s)a.b", "a\nb", ["a\nb"]],
  ["\\d\\_\\-[\\-\\d]", "٣_--", ["٣_--"]],
])("%s finds what Python finds", (pattern, text, found) => {
  expect(findAll(javascriptRegex(pattern), text)).toEqual(found);
});

test("removes matches", () => {
  expect(withoutMatches(javascriptRegex("[$,]"), "$1,000")).toBe("1000");
});

test.each(["(", "(?x)a", "(?>a)", "*"])("refuses %s", (pattern) => {
  expect(() => javascriptRegex(pattern)).toThrow(SyntaxError);
});

test("ends a pattern that backtracks without end", () => {
  expect(findAll(javascriptRegex("(a+)+b"), "a".repeat(40))).toBeUndefined();
});
