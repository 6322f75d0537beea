/** A client's value that a schema refuses, in words: the place, the expectation, and the actual value. */
import type { z } from "zod";
import { describeValue } from "./describe-value.js";

const MAX_NAME = 80;

/** Field names come from the client and go back to it, so huge ones are truncated. */
export function shorten(name: string): string {
  return name.length <= MAX_NAME ? name : `${name.slice(0, MAX_NAME - 3)}...`;
}

/** @example pathText(["messages", 0, "content"]) // "messages[0].content" */
export function pathText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else text += text === "" ? shorten(String(key)) : `.${shorten(String(key))}`;
  }
  return text;
}

export function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

/** Stands for an expectation without words. */
const ANOTHER = "another value";

const NOUNS: Readonly<Record<string, string>> = {
  array: "an array",
  object: "an object",
  record: "an object",
  int: "an integer",
};

/** A bound of a length or of a number. */
function boundText(origin: string, words: string): string {
  if (origin === "array" || origin === "set") return `${words} elements`;
  return origin === "string" ? `${words} characters` : `a number of ${words}`;
}

/** For a union, the deepest error is more helpful than "no alternative fits". */
export function expectedOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return NOUNS[issue.expected] ?? `a ${issue.expected}`;
    case "invalid_value": {
      const values = issue.values.map((value) => JSON.stringify(value)).join(", ");
      return issue.values.length === 1 ? values : `one of ${values}`;
    }
    case "too_small":
      return boundText(
        issue.origin,
        issue.inclusive === false ? `more than ${issue.minimum}` : `at least ${issue.minimum}`,
      );
    case "too_big":
      return boundText(
        issue.origin,
        issue.inclusive === false ? `less than ${issue.maximum}` : `at most ${issue.maximum}`,
      );
    case "not_multiple_of":
      return `a multiple of ${issue.divisor}`;
    case "invalid_format":
      return issue.format === "regex" ? `a text like ${issue.pattern}` : `a text in the form of ${issue.format}`;
    case "unrecognized_keys":
      return `no field "${shorten(issue.keys[0] ?? "")}"`;
    case "invalid_union":
      if ("options" in issue) return `one of ${issue.options.map((option) => JSON.stringify(option)).join(", ")}`;
      return [...new Set(issue.errors.map(([first]) => (first === undefined ? ANOTHER : expectedWithin(first))))].join(
        " or ",
      );
    default:
      return ANOTHER;
  }
}

/** The expectation of an alternative; its error may lie in a list's element or an object's field. */
function expectedWithin(issue: z.core.$ZodIssue): string {
  const expected = expectedOf(issue);
  const [key] = issue.path;
  if (key === undefined) return expected;
  if (typeof key !== "number") {
    return `an object with ${expected} as ${pathText(issue.path)}`;
  }
  return `an array of ${expected.replace(/^an? /, "")}s`;
}

/** Beginnings of zod's own messages; other messages are a schema's words. */
const OF_ZOD = /^(Invalid|Too (big|small)|Unrecognized key)/;

interface SchemaProblem {
  /** The field at fault, in the form `messages[0].content`; empty: the value itself. */
  readonly param: string;
  /** @example "expected a string, got 7" */
  readonly reason: string;
}

/** @example problemText(error, value) // "messages[0].role: expected one of …" */
export function problemText(error: z.ZodError, root: unknown): string {
  const { param, reason } = firstProblem(error, root);
  return param === "" ? reason : `${param}: ${reason}`;
}

/** @param root the value that was checked */
export function firstProblem(error: z.ZodError, root: unknown): SchemaProblem {
  const [issue] = error.issues;
  if (issue === undefined) return { param: "", reason: "expected another value" };
  if (issue.code === "unrecognized_keys") {
    return { param: pathText([...issue.path, issue.keys[0] ?? ""]), reason: "expected nothing of this name" };
  }
  const reason = OF_ZOD.test(issue.message)
    ? `expected ${expectedOf(issue)}, got ${describeValue(valueAt(root, issue.path))}`
    : issue.message;
  return { param: pathText(issue.path), reason };
}
