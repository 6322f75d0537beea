import { expect, test } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { parseJsonObject } from "./json.js";

test("infinite numbers are read as null, and strings stay as they are", () => {
  const object = parseJsonObject(
    '{"a": [0, Infinity], "b": -Infinity, "c": "\\"Infinity\\" is a word"}',
    "config.json",
  );
  expect(object.raw).toEqual({ a: [0, null], b: null, c: '"Infinity" is a word' });
  expect(() => parseJsonObject('{"eps": NaN}', "config.json")).toThrow(/JSON/);
});

test("a string without an end is read in a time in proportion to its length", () => {
  const hostile = `{"a": Infinity, "b": "${'\\"'.repeat(400_000)}`;
  const beginMs = computedMs();
  expect(() => parseJsonObject(hostile, "config.json")).toThrow(/JSON/);
  // Scans from each quote would take minutes.
  expect(computedMs() - beginMs).toBeLessThan(5000);
});

test("a key that a file calls otherwise is named as in the file", () => {
  const text = parseJsonObject('{"moe_topk": 99, "width": 1}', "config.json").withDefaults(
    { active: "many", width: "wide" },
    { active: "moe_topk", width: "other_width" },
  );
  expect(() => text.number("active")).toThrow("config.json: moe_topk to be a number");
  expect([text.nameOf("width"), text.number("width")]).toEqual(["config.json: width", 1]);
});
