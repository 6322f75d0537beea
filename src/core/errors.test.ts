import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ERROR_CODES, errorFromRecord, errorToRecord, MillraceError, toMillraceError } from "./errors.js";
import { packageRoot } from "./package-root.js";

/** Rows of the tables in docs/reference/errors.md: code, status, message, remedy. */
function documentedRows(): string[][] {
  const text = readFileSync(join(packageRoot(), "docs/reference/errors.md"), "utf8");
  return text
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

test("docs/reference/errors.md documents every code once, in the same order, with its status", () => {
  const documented = documentedRows().map(([code, status]) => [code, status]);
  const expected = ERROR_CODES.map((code) => [`\`${code}\``, String(new MillraceError(code, "").status)]);
  expect(documented).toEqual(expected);
});

/** Quoted codes, except in comparisons, in all sources that raise errors. */
function raisedCodes(): Set<string> {
  const sources = ["src", "native"].flatMap((folder) =>
    readdirSync(join(packageRoot(), folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(ts|cc|h)$/.test(file) && !/\.test\.ts$|^core\/errors\.ts$|^cpu\/test\//.test(file))
      .map((file) => readFileSync(join(packageRoot(), folder, file), "utf8")),
  );
  const quoted = sources.flatMap((source) => [...source.matchAll(/(?<!=== )"([a-z]+(?:_[a-z]+)*)"/g)]);
  return new Set(quoted.map(([, code]) => code!));
}

test("every code is raised somewhere", () => {
  const raised = raisedCodes();
  expect(ERROR_CODES.filter((code) => !raised.has(code))).toEqual([]);
});

test("every documented code has a typical message and says what to do", () => {
  for (const row of documentedRows()) {
    expect(row, row[0]).toHaveLength(4);
    for (const cell of row) expect(cell, row[0]).not.toBe("");
  }
});

test("a record survives a worker boundary", () => {
  const error = new MillraceError("unknown_field", "expected only known fields, got x", {
    param: "x",
    hint: "leave it out",
  });
  const copy = errorFromRecord(structuredClone(errorToRecord(error)));
  expect({ ...copy, message: copy.message }).toEqual({ ...error, message: error.message });
  expect(errorToRecord(new MillraceError("not_found", "no"))).toEqual({ code: "not_found", message: "no" });
});

test("anything thrown becomes one type, and our own errors pass unchanged", () => {
  const own = new MillraceError("queue_full", "full");
  expect(toMillraceError(own)).toBe(own);
  const cause = new TypeError("x is not a function");
  expect(toMillraceError(cause)).toMatchObject({ code: "internal_error", message: "x is not a function", cause });
  expect(toMillraceError("text", "engine_failed")).toMatchObject({
    code: "engine_failed",
    message: "text",
    status: 500,
  });
});
