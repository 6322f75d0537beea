/** Typical JSON schemas, each with a valid value for the measurement of masks. */
import { recipeText } from "../../text/answer/answer-recipe.js";
import type { GrammarCase } from "./grammar-bench.js";

const PERSON = {
  name: "Ada Lovelace of London",
  age: 36,
  email: "ada.lovelace@example.org",
  tags: ["math", "poetry and science"],
  address: { street: "12 St James's Square", city: "London", zip: "12345" },
  kind: "b",
  score: 99.5,
};

const text = (rest: object = {}) => ({ type: "string", ...rest });

function objectOf(properties: object): object {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

const PERSON_SCHEMA = objectOf({
  name: text(),
  age: { type: "integer", minimum: 0, maximum: 150 },
  email: text({ format: "email" }),
  tags: { type: "array", items: text(), maxItems: 10 },
  address: objectOf({ street: text(), city: text(), zip: text({ pattern: "^[0-9]{5}$" }) }),
  kind: { enum: ["a", "b", "c"] },
  score: { type: "number" },
});

const SENTENCE = "A sentence of some words, as they are written into JSON: nothing out of the ordinary.";

const SCHEMAS: readonly (readonly [name: string, schema: object, value: unknown])[] = [
  ["a person", PERSON_SCHEMA, PERSON],
  ["any object", { type: "object" }, { a: [1, 2.5, { b: SENTENCE }], c: null }],
  ["text", objectOf({ text: text() }), { text: SENTENCE }],
  ["text of 1 to 200", objectOf({ text: text({ minLength: 1, maxLength: 200 }) }), { text: SENTENCE }],
  ["an e-mail address", objectOf({ email: text({ format: "email" }) }), { email: PERSON.email }],
  ["a list of numbers", objectOf({ list: { type: "array", items: { type: "number" } } }), { list: [1, 2.5, -3] }],
];

/** A recipe that compiles immediately. */
export const TRIVIAL_RECIPE = recipeText({ kind: "choice", choices: ["a"] });

export const GRAMMAR_CASES: readonly GrammarCase[] = SCHEMAS.map(([name, schema, value]) => ({
  name,
  // Each round has a different recipe, because a known recipe is not compiled again.
  recipeOf: (round) => recipeText({ kind: "schema", schema, param: `schema ${round}` }),
  answer: JSON.stringify(value),
}));
