import { describe, expect, test } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { grammarOfSchema } from "./json-schema.js";
import { heldToObjects } from "./object-schema.js";

const grammarOf = (schema: unknown) => grammarOfSchema(schema, "json");
const ref = (name: string | number) => ({ $ref: `#/$defs/${name}` });

/**
 * Each of `length` definitions refers to the next by `link`; the last is an object that counts how often it is read.
 */
function chain(length: number, link: (next: object) => object) {
  const seen = { count: 0 };
  const last = {
    get type() {
      seen.count++;
      return "object";
    },
  };
  const links = Array.from({ length }, (_, i) => [i, link(ref(i + 1))]);
  return { schema: { ...ref(0), $defs: { ...Object.fromEntries(links), [length]: last } }, seen };
}

describe("references that lead to references", () => {
  test("are followed once each, however many paths lead to them", () => {
    const { schema, seen } = chain(15, (next) => ({ anyOf: [next, next] }));
    expect(grammarOf(schema)).toContain("root ::=");
    expect(heldToObjects(schema)).toBe(schema);
    expect(seen.count).toBeLessThan(100);
  });

  test.each([
    ["lists", (next: object) => ({ type: "array", items: next })],
    ["nothing between", (next: object) => next],
  ])("are refused if they nest too deeply: %s", (_, link) => {
    const { schema } = chain(20_000, link);
    expect(() => grammarOf(schema)).toThrow(MillraceError);
    expect(() => grammarOf(schema)).toThrow("expected subschemas nested at most 128 deep");
    expect(() => heldToObjects(schema)).not.toThrow();
  });

  test.each([
    ["itself", { a: ref("a") }],
    ["itself by two others", { a: ref("b"), b: { anyOf: [{ type: "null" }, ref("c")] }, c: ref("a") }],
    ["others that go round", { a: ref("b"), b: ref("c"), c: ref("b") }],
    ["itself beside an object", { a: { anyOf: [{ properties: { b: ref("b") } }, ref("b")] }, b: ref("a") }],
  ])("are refused if one leads to %s", (_, $defs) => {
    expect(() => grammarOf({ ...ref("a"), $defs })).toThrow("expected a reference that does not lead to itself");
  });

  test("may lead back to themselves through a property or item", () => {
    const list = { type: "object", properties: { next: { anyOf: [{ type: "null" }, ref("list")] } } };
    expect(grammarOf({ ...ref("list"), $defs: { list } })).toContain("root ::=");
  });
});

test("bounds beyond the largest supported number have no effect", () => {
  const zodInteger = { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
  expect(grammarOf(zodInteger)).toBe(grammarOf({ type: "integer" }));
  expect(grammarOf({ type: "number", maximum: 1e16 })).toBe(grammarOf({ type: "number" }));
  expect(grammarOf({ type: "number", maximum: 1e10 })).toBe(grammarOf({ type: "number", maximum: 999_999_999 }));
});

test("a pattern that no answer can follow is refused", () => {
  expect(() => grammarOf({ type: "string", pattern: "^\ufffd$" })).toThrow("characters that an answer can have");
});

describe("property names", () => {
  const numbered = (length: number) => Array.from({ length }, (_, i) => `p${i}`);

  test("too many are refused before they are compared", () => {
    const names = numbered(200_000);
    const never = Object.fromEntries(names.map((name) => [name, false]));
    for (const schema of [
      { type: "object", properties: never, required: names },
      { type: "object", properties: never, additionalProperties: true },
      { type: "object", properties: { p0: true }, required: names },
    ]) {
      expect(() => grammarOf(schema)).toThrow("expected at most 5000 subschemas");
    }
  });

  test("thousands of required names are looked up quickly", () => {
    const names = numbered(2000);
    const schema = { type: "object", properties: Object.fromEntries(names.map((name) => [name, { type: "null" }])) };
    expect(grammarOf({ ...schema, required: [...names, ...names] })).toBe(grammarOf({ ...schema, required: names }));
  });

  test("a name that is too long or not a string is refused", () => {
    const long = { [`a${"b".repeat(5000)}`]: true };
    const open = { type: "object", properties: long, additionalProperties: true };
    expect(() => grammarOf(open)).toThrow("expected names of at most 1024 characters");
    expect(() => grammarOf({ type: "object", required: [1] })).toThrow("expected a list of names, got 1");
  });

  test("alternatives with many required names are recognised as disjoint", () => {
    const alternatives = Array.from({ length: 256 }, (_, i) => ({
      type: "object",
      required: [...numbered(1000).map((name) => `${name} ${i}`), "z"],
      properties: { z: { const: i } },
    }));
    // The alternatives are disjoint, but their grammar is too long.
    expect(() => grammarOf({ oneOf: alternatives })).toThrow(/expected (at most 5000 subschemas|a grammar of at most)/);
    const few = alternatives.map(({ type, properties }) => ({ type, properties, required: ["z"] }));
    expect(grammarOf({ oneOf: few })).toContain("root ::=");
  });
});

test("a constant that is too long is refused before it is compiled", () => {
  expect(() => grammarOf({ const: "x".repeat(1 << 20) })).toThrow("expected a grammar of at most");
});

describe("long lists of values", () => {
  const values = Array.from({ length: 300_000 }, (_, i) => i);

  test("are refused with a coded error, not with a stack overflow", () => {
    expect(() => grammarOf({ enum: values })).toThrow(MillraceError);
    expect(() => grammarOf({ oneOf: [{ enum: values }, { type: "string" }] })).toThrow(MillraceError);
  });

  test("of two alternatives are recognised as disjoint", () => {
    const [even, odd] = [0, 1].map((rest) => ({ enum: values.slice(0, 2000).filter((value) => value % 2 === rest) }));
    expect(grammarOf({ oneOf: [even, odd] })).toContain("root ::=");
  });
});
