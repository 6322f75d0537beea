import { describe, expect, test, vi } from "vitest";
import { grammarOfSchema } from "./json-schema.js";
import { grammarOfRegex } from "./pattern-expression.js";
import { MAX_PATTERN_LENGTH, RegexError } from "./regex.js";

const messageOf = (read: () => unknown): string => {
  try {
    read();
  } catch (thrown) {
    return (thrown as Error).message;
  }
  return "";
};

test("plain, named and non-capturing groups give the same grammar", () => {
  expect(grammarOfRegex("(?:ab)c")).toBe(grammarOfRegex("(ab)c"));
  expect(grammarOfRegex("(?<näme>ab)c")).toBe(grammarOfRegex("(ab)c"));
});

test("a schema's pattern is parsed once, however often its type is listed", () => {
  const schema = { type: Array(200_000).fill("string"), pattern: "(?:ab)" };
  expect(grammarOfSchema(schema, "json")).toBe(grammarOfSchema({ ...schema, type: "string" }, "json"));
});

test("the time for many groups grows only with their characters", () => {
  const join = vi.spyOn(Array.prototype, "join");
  grammarOfRegex("(?:ab)".repeat(5000));
  const numJoined = join.mock.contexts.reduce((sum: number, each) => sum + (each as unknown[]).length, 0);
  join.mockRestore();
  expect(numJoined).toBeLessThan(100 * 6 * 5000);
});

describe("refused, in a text that is short", () => {
  const deep = (depth: number) => `${"(?:".repeat(depth)}a${")".repeat(depth)}`;

  test.each([
    ["lookahead that contradicts", "(?=a)b", /^expected a pattern that some text matches, got one/],
    ["lookbehind", "(?<=a)b", /^expected no lookbehind at/],
    ["groups in groups", deep(65), /^expected groups nested at most 64 deep at/],
    ["groups deeper than the stack", deep(10_000), /^expected /],
    ["no expression", `${"x: ".repeat(5000)}(`, /^expected a regular expression, got "x: x.*: Unterminated group$/],
    [
      "repetitions in many digits",
      "a{00000000000000000000000002}",
      /^expected a repetition of something, in few digits/,
    ],
    ["half a character", "[a-\ud800]", /^expected a class that has characters at/],
    ["too long", "a".repeat(MAX_PATTERN_LENGTH + 1), /^expected a pattern of at most 65536 characters, got 65537$/],
    ["large sets", "\\W".repeat(10_000), /^expected a pattern whose grammar has at most 262144 characters, got/],
  ])("%s", (_, pattern, message) => {
    expect(() => grammarOfRegex(pattern)).toThrow(RegexError);
    const got = messageOf(() => grammarOfRegex(pattern));
    expect(got).toMatch(message);
    expect(got.length).toBeLessThan(400);
  });

  test("groups nested up to the limit, with other groups next to them", () => {
    expect(grammarOfRegex(deep(64).repeat(2))).toContain("root ::=");
  });

  test("as a schema's pattern", () => {
    const pattern = "a".repeat(MAX_PATTERN_LENGTH + 1);
    expect(messageOf(() => grammarOfSchema({ type: "string", pattern }, "json"))).toBe(
      "json: at #/pattern: expected a pattern of at most 65536 characters, got 65537",
    );
  });
});
