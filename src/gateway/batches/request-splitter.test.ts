import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestSplitter } from "./request-splitter.js";

const LIMITS = { maxElements: 100, maxElementBytes: 10_000 };

function split(text: string, cuts: readonly number[] = [], limits = LIMITS): readonly string[] {
  const splitter = new RequestSplitter(limits);
  const bytes = Buffer.from(text);
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  const elements = at.slice(1).flatMap((end, i) => splitter.push(Buffer.from(bytes.subarray(at[i]!, end))));
  splitter.end();
  return elements.map((element) => element.toString());
}

test("elements are what JSON.parse finds, one line each, wherever the body is cut", () => {
  const element = fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue());
  fc.assert(
    fc.property(
      fc.array(element, { minLength: 1, maxLength: 8 }),
      fc.array(fc.nat(10_000), { maxLength: 12 }),
      fc.constantFrom(0, 2),
      (requests, cuts, indent) => {
        const lines = split(JSON.stringify({ requests }, null, indent), cuts);
        expect(lines.every((line) => !/[\r\n]/.test(line))).toBe(true);
        expect(lines.map((line) => JSON.parse(line))).toEqual(JSON.parse(JSON.stringify(requests)));
      },
    ),
  );
});

describe("refused", () => {
  test.each([
    ["no JSON", "x"],
    ["an array", '[{"a":1}]'],
    ["nothing", ""],
    ["no request", '{"requests":[]}'],
    ["requests that are no objects", '{"requests":[0]}'],
    ["requests in requests", '{"requests":[[{"a":1}]]}'],
    ["an object as requests", '{"requests":{"a":{"b":1}}}'],
    ["a body without its end", '{"requests":[{"a":1}]'],
    ["two commas", '{"requests":[{"a":1},,{"a":1}]}'],
    ["more brackets than there are", '{"requests":[{"a":1}]}]}'],
    ["another field", '{"requests":[{"a":1}],"other":[{"a":1}]}'],
    ["other fields for ever", `{"requests":[{"a":1}],"other":"${"x".repeat(2_000_000)}"}`],
  ])("%s", (_, text) => {
    expect(() => split(text)).toThrow(/expected/);
  });

  test("too many, and too large ones, before the rest has come", () => {
    expect(() => split('{"requests":[{},{},{}]}', [], { ...LIMITS, maxElements: 2 })).toThrow(/at most 2/);
    const splitter = new RequestSplitter({ ...LIMITS, maxElementBytes: 100 });
    expect(() => splitter.push(Buffer.from(`{"requests":[{"a":"${"x".repeat(101)}`))).toThrow(/at most 100 bytes/);
  });
});
