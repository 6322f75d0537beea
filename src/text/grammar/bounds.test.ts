/** Oversized input is refused by its size, before it is converted or compiled. */
import { describe, expect, test } from "vitest";
import { grammarOfChoices, MAX_GRAMMAR_LENGTH } from "./ebnf.js";
import { assertCompilable, MAX_ELEMENTS, MAX_GROUPS } from "./ebnf-size.js";
import { grammarOfSchema } from "./json-schema.js";
import { grammarOfRegex } from "./pattern-expression.js";

const grammarOf = (schema: unknown) => grammarOfSchema(schema, "json");
const TOO_LONG = `expected a grammar of at most ${MAX_GRAMMAR_LENGTH} characters, got more`;

describe("repetitions written out", () => {
  const tooLarge = `expected a grammar of at most ${MAX_ELEMENTS} elements once its repetitions are written out`;

  test.each([
    ["nested", 'root ::= ((("a7"{1,1000}){1,1000}){1,1000})'],
    ["without an end", "root ::= (([a-z]{1000,}){1000,})"],
    ["exact", "root ::= ((x{999}) {999})\nx ::= [a]\n"],
    ["spaced", "root ::= ( ( x { 1 , 999 } ) { 1 , 999 } )"],
    ["beside others", `root ::= "${"b".repeat(MAX_ELEMENTS / 2)}" ([a]{600}){600}`],
    ["of more digits than a number has", `root ::= "a"{1,${"9".repeat(400)}}`],
  ])("are counted: %s", (_, grammar) => {
    expect(() => assertCompilable(grammar)).toThrow(tooLarge);
  });

  test.each([
    ["braces in texts", 'root ::= "{1,1000}"{1,1000} "\\"{9999}{9999}" | [{9}{9}\\]]'],
    ["braces in comments", "root ::= x # (x{9999}){9999}\nx ::= [a]"],
    ["few elements often", 'root ::= ("a"{1,500}){1,500}'],
    ["a long text", `root ::= "${"b".repeat(MAX_ELEMENTS - 1)}"`],
  ])("are not counted in %s", (_, grammar) => {
    expect(() => assertCompilable(grammar)).not.toThrow();
  });

  test("of schemas and patterns are counted, too", () => {
    expect(() => assertCompilable(grammarOfRegex("((?:a{1,200}){1,200}){1,200}"))).toThrow(tooLarge);
    const list = (items: object) => ({ type: "array", items, minItems: 2000, maxItems: 2000 });
    expect(() => assertCompilable(grammarOf(list({ type: "string", pattern: "^(ab){500}$" })))).not.toThrow();
  });
});

test("groups inside groups are counted", () => {
  const nested = (depth: number) => `root ::= ${"(".repeat(depth)}"a"${")".repeat(depth)}`;
  expect(() => assertCompilable(nested(MAX_GROUPS))).not.toThrow();
  expect(() => assertCompilable(nested(MAX_GROUPS + 1))).toThrow(`groups nested at most ${MAX_GROUPS} deep`);
});

/** A list that counts how many of its values were read. */
function watched(length: number, textOf: (index: number) => string) {
  const seen = { count: 0 };
  const value = (_: object, key: string | symbol) => {
    if (typeof key !== "string" || !/^\d+$/.test(key)) return Reflect.get(Array(length), key) as unknown;
    seen.count++;
    return textOf(Number(key));
  };
  return { list: new Proxy<readonly string[]>(Array<string>(length), { get: value }), seen };
}

test("reading of choices stops once their total length is too large", () => {
  const texts = (function* () {
    for (let i = 0; ; i++) yield `${i}${"日".repeat(1000)}`;
  })();
  const first = Array.from({ length: 1024 }, () => texts.next().value as string);
  expect(() => grammarOfChoices(first)).toThrow(TOO_LONG);
  const { list, seen } = watched(100_000, (i) => first[i % 1024]!.repeat(100));
  expect(() => grammarOfChoices(list)).toThrow(TOO_LONG);
  expect(seen.count).toBeLessThan(10);
});

test("reading of listed values stops once their total length is too large", () => {
  expect(() => grammarOf({ enum: Array.from({ length: 60_000 }, (_, i) => i) })).toThrow(TOO_LONG);
  expect(() => grammarOf({ enum: Array<number>(60_000).fill(7) })).not.toThrow();
});

describe("excluded names", () => {
  const open = (names: readonly string[]) =>
    grammarOf({ properties: Object.fromEntries(names.map((name) => [name, false])), additionalProperties: true });

  test("are refused before all are read if no grammar could contain all their characters", () => {
    const names = Array.from({ length: 4900 }, (_, i) => `${i}_${"x".repeat(1000)}`);
    const set = Map.prototype.set;
    const numSet = { count: 0 };
    Map.prototype.set = function (key, value) {
      numSet.count++;
      return set.call(this, key, value);
    };
    try {
      expect(() => open(names)).toThrow(TOO_LONG);
    } finally {
      Map.prototype.set = set;
    }
    // One map entry per character would be 4.9 million.
    expect(numSet.count).toBeLessThan(100_000);
  });

  test("may share long prefixes", () => {
    const names = Array.from({ length: 100 }, (_, i) => `${"x".repeat(300)}${i}`);
    expect(open(names)).toContain("root ::=");
  });
});
