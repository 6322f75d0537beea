/** Scores JSON answers: whether they parse, and the share of expected fields with the expected values. */
import { isDeepStrictEqual } from "node:util";
import { parseJson } from "./fenced.js";
import type { Score } from "./score.js";

type Fields = ReadonlyMap<string, unknown>;

/** Pairs of path and value; objects are split into fields, also in arrays, and arrays of plain values count as one. */
function fieldsOf(value: unknown, path = ""): [string, unknown][] {
  if (Array.isArray(value)) {
    const hasObjects = value.some((item) => typeof item === "object" && item !== null);
    return hasObjects ? value.flatMap((item, index) => fieldsOf(item, `${path}[${index}]`)) : [[path, value]];
  }
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, field]) => fieldsOf(field, `${path}.${key}`));
  }
  return [[path, value]];
}

/** The share of right fields among the expected and the surplus ones; exact: equal values. */
export function scoreJson(expected: string, answer: string): Score {
  const wanted = parseJson(expected);
  if (wanted === undefined) throw new TypeError(`expected JSON as the expected answer, got ${expected}`);
  const got = parseJson(answer);
  if (got === undefined) return { score: 0, exact: false, note: "no JSON" };
  const expectedFields: Fields = new Map(fieldsOf(wanted.value));
  const fields: Fields = new Map(fieldsOf(got.value));
  const wrong = [...expectedFields].filter(
    ([path, value]) => !fields.has(path) || !isDeepStrictEqual(fields.get(path), value),
  );
  const extra = [...fields.keys()].filter((path) => !expectedFields.has(path));
  if (isDeepStrictEqual(got.value, wanted.value)) return { score: 1, exact: true };
  const numFields = expectedFields.size + extra.length;
  const names = [...wrong.map(([path]) => path), ...extra.map((path) => `${path} (not asked for)`)];
  return {
    score: numFields === 0 ? 0 : (expectedFields.size - wrong.length) / numFields,
    exact: false,
    note: `wrong: ${names.map((name) => name.replace(/^\./, "")).join(", ")}`,
  };
}
