import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readArguments } from "./read-arguments.js";

describe("arguments", () => {
  it("that are complete are read as JSON", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const text = JSON.stringify(value);
        expect(readArguments(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each([
    ["", {}],
    ["{", {}],
    ['{"city', {}],
    ['{"city": ', {}],
    ['{"city": "Par', { city: "Par" }],
    ['{"city": "a\\', {}],
    ['{"a": 1, "b": tr', { a: 1 }],
    ['{"a": [1, {"b": "}', { a: [1, { b: "}" }] }],
    ['{"a": [1, 2], "b', { a: [1, 2] }],
    ["[1]", {}],
    [`{"a": ${"[".repeat(20_000)}`, {}],
    ['{"a": [1, {"b": 2}], "c": tr', { a: [1, { b: 2 }] }],
    ['{"a": [1, {"b": 2}] x', { a: [1, { b: 2 }] }],
    ["nonsense", {}],
    ['{"a": nonsense, "b": 1}', {}],
  ])("%s", (text, value) => {
    expect(readArguments(text)).toEqual(value);
  });

  it("that are cut off at any place are still read as an object", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(), (value, cut) => {
        const text = JSON.stringify(value);
        const read = readArguments(text.slice(0, cut % (text.length + 1)));
        for (const key of Object.keys(read).slice(0, -1)) expect(value).toHaveProperty([key]);
      }),
    );
  });
});
