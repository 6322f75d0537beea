import { expect, test } from "vitest";
import { formatTable, jsonText } from "./format.js";

test("columns line up and lines have no trailing spaces", () => {
  expect(formatTable([["a", "long"], ["longer", "b"], ["c"]])).toBe("a       long\nlonger  b\nc");
});

test("control characters of names move no cursor", () => {
  expect(formatTable([["a\u001b[2Jb\nc", "d"], ["e"]])).toBe("a\\u001b[2Jb\\u000ac  d\ne");
});

test("JSON has no rounding noise, and its integers, texts and nulls stay", () => {
  const record = {
    ms: 15.99330400000008,
    third: 1 / 3,
    count: 12_345_678_901,
    small: 1.5e-12,
    text: "0.1",
    none: null,
  };
  expect(jsonText(record)).toBe(
    '{"ms":15.993304,"third":0.333333333,"count":12345678901,"small":1.5e-12,"text":"0.1","none":null}',
  );
});
