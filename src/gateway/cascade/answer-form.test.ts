import { expect, test } from "vitest";
import { formProblem } from "./answer-form.js";

const problemOf = (schema: object, text: string) =>
  formProblem({ response_format: { type: "json_schema", json_schema: { schema } } }, text);

test("an answer is of its schema, also where that refers to itself or to parts of it", () => {
  const item = { type: "object", properties: { size: { type: "integer" } }, required: ["size"] };
  const list = { $defs: { item }, type: "array", items: { $ref: "#/$defs/item" } };
  expect(problemOf(list, '[{"size": 1}]')).toBeUndefined();
  expect(problemOf(list, '[{"size": "1"}]')).toBe("not of the schema");
  expect(problemOf(list, "[1")).toBe("no JSON");
  const tree = { type: "object", properties: { next: { $ref: "#" } } };
  expect(problemOf(tree, '{"next": {}}')).toBeUndefined();
});

test("a schema that takes for ever is left unchecked: each level doubles what is compared", () => {
  const levels = Array.from({ length: 40 }, (_, i) => {
    const below = { $ref: `#/$defs/a${i}` };
    return [`a${i + 1}`, { anyOf: [below, below] }] as const;
  });
  const $defs = { a0: { const: "never" }, ...Object.fromEntries(levels) };
  expect(problemOf({ $defs, anyOf: [{ $ref: "#/$defs/a40" }, { const: "a" }] }, '"b"')).toBeUndefined();
  expect(problemOf({ $defs, anyOf: [{ $ref: "#/$defs/a3" }, { const: "a" }] }, '"b"')).toBe("not of the schema");
});

test("references that lead nowhere, and nesting as deep as it gets, break nothing", () => {
  expect(problemOf({ $ref: "#/%E0%A4%A" }, "1")).toBeUndefined();
  expect(problemOf({ $ref: "#/$defs/none" }, "1")).toBeUndefined();
  const deep = JSON.parse(`${'{"not":'.repeat(8000)}{}${"}".repeat(8000)}`) as object;
  expect(problemOf(deep, "1")).toBeUndefined();
});
