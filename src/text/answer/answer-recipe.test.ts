import { expect, test, vi } from "vitest";
import { grammarOfSchema } from "../grammar/json-schema.js";
import { grammarOfRecipe, MAX_RECIPE_LENGTH, recipeText } from "./answer-recipe.js";
import { forcedCallGrammar } from "./call-grammar.js";
import { hermes } from "./hermes.js";

const written = (recipe: Parameters<typeof recipeText>[0]) => grammarOfRecipe(recipeText(recipe));
const schema = { type: "object", properties: { ü: { enum: [1, "日"] } }, required: ["ü"] };

test("a recipe sent as text gives the same grammar as a direct conversion", () => {
  const grammar = grammarOfSchema(schema, "json");
  expect(written({ kind: "schema", schema, param: "json" })).toBe(grammar);
  expect(written({ kind: "schemaText", text: JSON.stringify(schema), param: "json" })).toBe(grammar);
  const functions = [{ name: "f", parameters: schema, isStrict: true, param: "tools[0]" }];
  const options = { format: hermes, functions, isSingle: true, specialTexts: ["<tool_call>"] };
  expect(written({ ...options, kind: "forcedCalls", isNamed: false })).toBe(forcedCallGrammar(options, false));
});

test("a recipe that is too long to send is refused before it is serialised", () => {
  const recipe = { kind: "schema", schema: { description: "x".repeat(MAX_RECIPE_LENGTH) }, param: "json" } as const;
  const stringify = vi.spyOn(JSON, "stringify");
  expect(() => recipeText(recipe)).toThrow(
    `expected schemas, patterns, choices and grammars of at most ${MAX_RECIPE_LENGTH}`,
  );
  expect(stringify).not.toHaveBeenCalled();
  stringify.mockRestore();
  const escaped = { kind: "choice", choices: ["\n".repeat(MAX_RECIPE_LENGTH - 100)] } as const;
  expect(() => recipeText(escaped)).toThrow("expected schemas, patterns, choices and grammars");
});

test("a client's own grammar is refused above the size limit for compiling", () => {
  const text = 'root ::= ((("a7"{1,1000}){1,1000}){1,1000})';
  expect(() => written({ kind: "grammar", text, param: "grammar" })).toThrow("once its repetitions are written out");
});

test.each([
  ["deep", `${'{"items":'.repeat(3000)}true${"}".repeat(3000)}`, "expected JSON nested at most 64 deep, got more"],
  ["broken", "{", "expected a JSON schema, got text that is not JSON"],
])("a faulty schema text is refused: %s", (_, text, problem) => {
  expect(() => written({ kind: "schemaText", text, param: "json" })).toThrow(`json: ${problem}`);
});
