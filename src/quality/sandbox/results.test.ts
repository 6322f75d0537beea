import { describe, expect, it } from "vitest";
import { readResults } from "./results.js";

describe("readResults", () => {
  it("reads one result for each call", () => {
    expect(readResults('[{"value": 3}, {"problem": "no"}]', 2)).toEqual([{ value: 3 }, { problem: "no" }]);
    expect(readResults('{"problem": "no function"}', 2)).toEqual({ problem: "no function" });
    expect(readResults('[{"value": -0.0}]', 1)).toEqual([{ value: 0 }]);
  });

  // Code that takes over the process can write anything.
  const FORGED: readonly (readonly [what: string, text: string])[] = [
    ["results too many", '[{"value": 1}, {"value": 1}, {"value": 1}]'],
    ["results too few", '[{"value": 1}]'],
    ["a result without a value, equal to what is not expected", '[{"value": 1}, {}]'],
    ["results and then others", '[{"value": 1}, {"value": 2}][{"value": 1}, {"value": 2}]'],
    ["results on lines", '[{"value": 1}, {"value": 2}]\n[{"value": 1}, {"value": 2}]'],
    ["a result with more in it", '[{"value": 1, "exact": true}, {"value": 2}]'],
    ["a score", '{"score": 1, "exact": true}'],
    ["a length", '{"length": 2, "0": {"value": 1}, "1": {"value": 2}}'],
    ["a prototype", '[{"__proto__": {"value": 1}}, {"value": 2}]'],
    ["null", "null"],
    ["nothing", ""],
    ["the launcher's word", "ready\n"],
    ["nesting", "[".repeat(500_000)],
    ["balanced nesting", "[".repeat(500_000) + "]".repeat(500_000)],
  ];
  it.each(FORGED)("%s is no result", (_, text) => {
    expect(readResults(text, 2)).toEqual({ problem: expect.any(String) });
  });

  it("keeps problems short", () => {
    expect(readResults(JSON.stringify({ problem: "x".repeat(1e6) }), 1)).toEqual({ problem: "x".repeat(300) });
  });
});
