/** Grammars of calls in the grammar engine itself: answers that they permit, and answers that they exclude. */
import { beforeAll, expect, it } from "vitest";
import { grammarMatcher } from "../../../test/helpers/grammar-matcher.js";
import { forcedCallGrammar, freeCallGrammar } from "./call-grammar.js";
import { phi4Mini } from "./json-list.js";
import { qwen3Coder } from "./tagged-parameters.js";

let accepts: Awaited<ReturnType<typeof grammarMatcher>>;
beforeAll(async () => {
  accepts = await grammarMatcher();
});

const strict = (parameters: object) => [{ name: "f", parameters, isStrict: true, param: "tools[0]" }];
const parameter = (name: string, value: string) => `<parameter=${name}>\n${value}\n</parameter>\n`;

const point = { type: "object", properties: { x: { type: "integer" } }, required: ["x"], additionalProperties: false };
const tree = { type: "array", items: { $ref: "#" } };

it.each([
  ["another parameter", { from: point, to: { $ref: "#/properties/from" } }, "to", '{"x": 1}', '{"y": 1}'],
  [
    "an item of another one",
    { all: { type: "array", items: point }, one: { $ref: "#/properties/all/items" } },
    "one",
    '{"x": 1}',
    "[]",
  ],
  ["a definition", { to: { $ref: "#/$defs/Point" } }, "to", '{"x": 1}', "{}"],
  ["the whole", { n: { type: "integer" }, children: tree }, "children", '[{"n": 1, "children": [{}]}]', "[[]]"],
])("a parameter may refer to %s", async (_name, properties, name, right, wrong) => {
  const parameters = { type: "object", properties, additionalProperties: false, $defs: { Point: point } };
  const options = { format: qwen3Coder, functions: strict(parameters), isSingle: true, specialTexts: [] };
  const grammar = forcedCallGrammar(options, true);
  expect(await accepts(grammar, `${parameter(name, right)}</function>\n</tool_call>`)).toBe(true);
  expect(await accepts(grammar, `${parameter(name, wrong)}</function>\n</tool_call>`)).toBe(false);
});

it("Phi's functools is a call only with the bracket of its list", async () => {
  const functions = strict({ type: "object", properties: {}, additionalProperties: false });
  const format = phi4Mini("functools[");
  const grammar = freeCallGrammar({ format, functions, isSingle: true, specialTexts: [], reasoning: undefined });
  expect(await accepts(grammar, "Write import functools first.")).toBe(true);
  expect(await accepts(grammar, 'functools[{"name": "f", "arguments": {}}]')).toBe(true);
  expect(await accepts(grammar, 'functools[{"name": "g", "arguments": {}}]')).toBe(false);
});
