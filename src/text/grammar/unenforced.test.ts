/**
 * The keywords that a grammar does not enforce are reported, and docs/reference/http-api.md lists the same keywords.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { UNENFORCED } from "./schema-keywords.js";
import { unenforcedKeywords } from "./unenforced.js";
import { listedTexts } from "./unique-items.js";

test.each<[string, unknown, string[]]>([
  ["kept keywords", { type: "object", properties: { uniqueItems: { type: "string", format: "odd" } } }, []],
  ["free unique items", { type: "array", items: { type: "string" }, uniqueItems: true }, ["uniqueItems"]],
  ["listed unique items", { items: { $ref: "#/$defs/a" }, uniqueItems: true, $defs: { a: { enum: [1, 2] } } }, []],
  [
    "listed unique items of which more is asked",
    { items: { enum: [1, 9], minimum: 5 }, uniqueItems: true },
    ["uniqueItems"],
  ],
  ["one item", { items: {}, maxItems: 1, uniqueItems: true }, []],
  ["conditions, deep inside", { properties: { a: { anyOf: [{ if: {}, else: {} }] } } }, ["if", "else"]],
  ["alternatives that may hold together", { oneOf: [{ minimum: 1 }, { maximum: 5 }] }, ["oneOf"]],
  ["alternatives that may not", { oneOf: [{ type: "string" }, { type: "null" }] }, []],
  ["nothing, and what is required", { allOf: [{ not: {} }, { not: { required: ["a"] } }] }, []],
  ["other complements", { not: { type: "string" } }, ["not"]],
  ["misspellings", { type: "string", minLenght: 3, "x-order": 1 }, ["minLenght"]],
  ["open objects of two", { type: "object", minProperties: 2 }, ["minProperties"]],
  ["closed ones", { type: "object", minProperties: 2, additionalProperties: false }, []],
])("%s", (_, schema, expected) => {
  expect(unenforcedKeywords(schema)).toEqual(expected);
});

const constants = (count: number) => ({ oneOf: Array.from({ length: count }, (_, i) => ({ const: i })) });

test.each<[string, unknown, string[]]>([
  ["as many alternatives as a grammar may have are compared", constants(256), []],
  ["more of them are not", constants(257), ["oneOf"]],
  ["a few such lists are compared", { allOf: [constants(256), constants(256)] }, []],
  ["more of them use up what a walk may cost", { allOf: Array.from({ length: 18 }, () => constants(256)) }, ["oneOf"]],
])("%s", (_, schema, expected) => {
  expect(unenforcedKeywords(schema)).toEqual(expected);
});

test("the values of unique items are the distinct listed values of their type", () => {
  expect(listedTexts({ enum: ["a", 1, "a", { b: 1, c: 2 }, { c: 2, b: 1 }] })).toHaveLength(3);
  expect(listedTexts({ enum: ["a", 1, 2.5], type: "integer" })).toEqual(["1"]);
  expect(listedTexts({ type: "boolean" })).toEqual(["false", "true"]);
  expect(listedTexts({ const: 1, description: "one" })).toEqual(["1"]);
  for (const schema of [{ enum: ["ab"], maxLength: 1 }, { enum: [1], const: 1 }, { type: "string" }, {}]) {
    expect(listedTexts(schema)).toBeUndefined();
  }
});

test("the documentation describes each keyword with the same text as the code", () => {
  const docs = readFileSync(new URL("../../../docs/reference/http-api.md", import.meta.url), "utf8");
  for (const [name, text] of UNENFORCED) expect(docs).toContain(`| \`${name}\` | ${text} |`);
});
