/** Constructs of tokenizer.json's expressions that JavaScript treats differently or lacks. */
import { describe, expect, it } from "vitest";
import { translateRegex } from "./regex.js";

const matches = (pattern: string, text: string) => [...text.matchAll(translateRegex(pattern))].map(([match]) => match);

describe("translates", () => {
  it.each([
    ["white space to Unicode's", "\\s+", "a\u0085\u3000b\ufeff", ["\u0085\u3000"]],
    ["negated classes", "[^\\s\\p{L}]+|\\S", "é1! ½", ["é", "1!", "½"]],
    ["case-blind groups, and no further", "(?i:'s|K)d", "'Sd 'ſd \u212ad kD", ["'Sd", "'ſd", "\u212ad"]],
    ["case-blind ranges", "(?i:[r-tx])+", "RſTxq", ["RſTx"]],
    ["possessive quantifiers, which give nothing back", "a++b|a?+a|.", "aaa", ["aa", "a"]],
    ["atomic groups", "(?>a|ab)c|x", "abc ac x", ["ac", "x"]],
    ["scripts", "\\p{Han}+|\\P{Latin}", "漢字a1", ["漢字", "1"]],
    ["anchors of lines", "^a$", "a\na\nba", ["a", "a"]],
    ["the dot to all but line feeds", ".+", "a\r\u2028b\nc", ["a\r\u2028b", "c"]],
    ["code points and escaped marks", "\\x41|\\x{1F642}|\\u00e9|[\\]\\-\\\\]|\\#|\\'", "A🙂é]-\\#'", [..."A🙂é]-\\#'"]],
    ["a bracket at a class's start, a hyphen at its end", "[]a-]", "]a-b", ["]", "a", "-"]],
    ["a class within a class", " ?[^(\\s|[.,!?\u2026]) ]+|[a[b-d]e]", "Hi! (a|b) ab,c", ["Hi", "a", "b", " ab", "c"]],
    [
      "a hundred groups or classes",
      `${"(".repeat(100)}a${")".repeat(100)}|${"[b".repeat(101)}${"]".repeat(101)}`,
      "ab",
      ["a", "b"],
    ],
    ["bounds, lazy too", "\\d{2,3}?|\\d{1,}", "1234", ["12", "34"]],
  ] as const)("%s", (_, pattern, text, expected) => {
    expect(matches(pattern, text)).toEqual(expected);
  });
});

describe("refuses", () => {
  it.each([
    "[a[b]",
    "[a[^b]]",
    "[[:alpha:]]",
    "[a-z&&b]",
    "\\w",
    "\\bword",
    "a{1,10000000000000}",
    "a{1",
    "(?i:ß)",
    "\\x{FFFFFF}",
    "a{1,3}+",
    "(?x: a)",
    "(a)\\1",
    "\\p{^L}",
    "\\p{Emoji}",
    "(a",
    "a)",
    "[a",
    "*a",
    "\\",
    "[\\s-x]",
    "x".repeat(20_000),
    "[".repeat(16_000),
    "(".repeat(16_000),
    `${"(".repeat(101)}a${")".repeat(101)}`,
    `${"[a".repeat(102)}${"]".repeat(102)}`,
  ])("%j", (pattern) => {
    const refused = expect.objectContaining({ code: "tokenizer_unsupported" });
    expect(() => translateRegex(pattern)).toThrow(refused);
  });
});
