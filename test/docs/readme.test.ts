/** The README is short, and each figure that it compares with stands in the page of results that its row names. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

const LINES_AT_MOST = 150;

const text = readFileSync(join(repositoryRoot(), "README.md"), "utf8");

test(`it has at most ${LINES_AT_MOST} lines`, () => {
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(LINES_AT_MOST);
});

const rows = text
  .split("\n")
  .filter((line) => /^\| .*docs\/background\/benchmarks\/\S+\.md\) \|$/.test(line))
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .map(([, what, beside, measured, conditions, page]) => ({ what, beside, measured, conditions, page }));

test("it compares with what people use", () => expect(rows.length).toBeGreaterThanOrEqual(8));

test.each(rows)("$what beside $beside", ({ measured = "", conditions = "", page = "" }) => {
  const results = readFileSync(join(repositoryRoot(), /\((\S+)\)/.exec(page)![1]!), "utf8").replace(/\s+/g, " ");
  const figures = measured.match(/\d[\d.,]*\d/g) ?? [];
  expect(figures.length).toBeGreaterThan(0);
  for (const figure of figures) expect(results, figure).toMatch(new RegExp(`(?<![\\d.])${figure}(?![\\d.]*\\d)`));
  expect(conditions).not.toBe("");
});
