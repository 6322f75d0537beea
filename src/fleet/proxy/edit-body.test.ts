import fc from "fast-check";
import { expect, test } from "vitest";
import { type BodyEdit, editBody } from "./edit-body.js";

const edited = (text: string, edit: BodyEdit): string =>
  editBody(Buffer.from(text), JSON.parse(text) as Record<string, unknown>, edit).toString();

test("only the bytes of the model's name change", () => {
  const text = `{ "seed": 12345678901234567890, "x": {"model": "no"}, "model" :\t"a\\"b", "y": ["model", ":"] }`;
  expect(edited(text, { model: "m" })).toBe(text.replace(`"a\\"b"`, `"m"`));
});

test("a body that needs no change is passed on unchanged", () => {
  const bytes = Buffer.from(`{"model":"m","seed":null}`);
  expect(editBody(bytes, { model: "m", seed: null }, { model: "m", seed: 5 })).toBe(bytes);
  expect(editBody(bytes, { model: "m", seed: null }, {})).toBe(bytes);
});

test("missing fields are inserted first", () => {
  expect(edited(`{"prompt":"x"}`, { model: "m", seed: 5 })).toBe(`{"seed":5,"model":"m","prompt":"x"}`);
  expect(edited(` {} `, { seed: 5 })).toBe(` {"seed":5} `);
});

test("a field name with escapes or a duplicate field is replaced, too", () => {
  expect(JSON.parse(edited(`{"mod\\u0065l":"a","n":1}`, { model: "m" }))).toEqual({ model: "m", n: 1 });
  expect(JSON.parse(edited(`{"model":"a","model":"b"}`, { model: "m" }))).toEqual({ model: "m" });
});

test("a member named __proto__ is kept in a body that is serialised again", () => {
  const text = `{"model":"a","model":"b","__proto__":{"n":2},"tools":[{"__proto__":1}]}`;
  expect(edited(text, { model: "m" })).toBe(`{"model":"m","__proto__":{"n":2},"tools":[{"__proto__":1}]}`);
  const salted = `{"cache_salt":"a","__proto__":[1]}`;
  expect(edited(salted, { cacheSalt: "b" })).toBe(`{"cache_salt":"b","__proto__":[1]}`);
});

test("any body becomes the same object with these fields", () => {
  const rest = fc.dictionary(
    fc.string().filter((key) => key !== "__proto__"),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(rest, fc.string(), fc.string(), fc.boolean(), fc.nat(3), (fields, before, model, isLast, indent) => {
      const body = isLast ? { ...fields, model: before } : Object.assign({ model: before }, fields, { model: before });
      const text = JSON.stringify(body, undefined, indent);
      const expected = { ...(JSON.parse(text) as object), model, ...("seed" in body ? {} : { seed: 7 }) };
      expect(JSON.parse(edited(text, { model, seed: 7 }))).toEqual(expected);
    }),
  );
});

test("long lists of ids stay lists in a body that is serialised again", () => {
  const body = { model: "a", prompt: [Int32Array.of(1, 2), Int32Array.of(3)], input: Int32Array.of(4), x: [{ y: 1 }] };
  const bytes = Buffer.from('{"model":"b","model":"a","prompt":[[1,2],[3]],"input":[4],"x":[{"y":1}]}');
  const edited: unknown = JSON.parse(editBody(bytes, body, { model: "c" }).toString());
  expect(edited).toEqual({ model: "c", prompt: [[1, 2], [3]], input: [4], x: [{ y: 1 }] });
});
