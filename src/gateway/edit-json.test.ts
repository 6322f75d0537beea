import fc from "fast-check";
import { expect, test } from "vitest";
import { changedFields, withFields } from "./edit-json.js";

const edited = (text: string, fields: object): string =>
  withFields(Buffer.from(text), JSON.parse(text.replace(/^\uFEFF/, "")), fields as never).toString();

test.each<[string, object, string]>([
  ['{"a": 1.0, "b": 2}', { b: undefined }, '{"a":1.0}'],
  ['{"b": 2, "a": [1.50, "}"]}', { b: undefined }, '{"a":[1.50, "}"]}'],
  ['{"b": 2}', { b: undefined }, "{}"],
  ['{"b": 2}', { b: undefined, c: 3 }, '{"c":3}'],
  ['{ "a" : 1e2 , "b" : {"b": 1.0} , "c" : 1 }', { b: undefined, c: "x" }, '{"a":1e2,"c":"x"}'],
  ['{"b": 2, "\\u0061": 1.0}', { b: undefined }, '{"a":1.0}'],
  ['\uFEFF{"a": 1.0, "b": 2}', { b: undefined }, '{"a":1}'],
  ['{"a": 1.0}', { b: undefined }, '{"a": 1.0}'],
])("%s with %j", (text, fields, expected) => {
  expect(edited(text, fields)).toBe(expected);
});

test("what is changed is what two bodies differ by, and an edited body says what the other says", () => {
  const body = fc.dictionary(fc.constantFrom("a", "b", "c", "__proto__", "d e"), fc.jsonValue({ maxDepth: 2 }));
  fc.assert(
    fc.property(body, body, (before, after) => {
      const text = JSON.stringify(before, undefined, 1);
      const fields = changedFields(JSON.parse(text), after as never);
      expect(JSON.parse(edited(text, fields))).toEqual(JSON.parse(JSON.stringify(after)));
    }),
  );
});
