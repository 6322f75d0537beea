/**
 * docs/background/decisions.md: one heading for each decision, numbered without gaps, each in the index by subject, and
 * references to decisions that exist.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

const text = readFileSync(join(repositoryRoot(), "docs/background/decisions.md"), "utf8");
const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading!);

test("decisions are numbered from 1 on, each once and in order", () => {
  const numbers = headings.map((heading) => Number(/^(\d+)\. \S/.exec(heading)?.[1]));
  expect(numbers).toEqual(headings.map((_, i) => i + 1));
  const titles = headings.map((heading) => heading.replace(/^\d+\. /, ""));
  expect(new Set(titles).size).toBe(titles.length);
});

test("each decision has one subject", () => {
  const index = /^\| Subject \|.*\n((?:\|.*\n)+)/m.exec(text)![1]!;
  const listed = [...index.matchAll(/\d+/g)].map(([number]) => Number(number));
  expect(listed.toSorted((a, b) => a - b)).toEqual(headings.map((_, i) => i + 1));
});

test("a number in brackets names a decision", () => {
  const named = [...text.matchAll(/\((\d{1,3})\)/g)].map(([, number]) => Number(number));
  expect(named.length).toBeGreaterThan(5);
  for (const number of named) expect(headings[number - 1], `decision ${number}`).toBeDefined();
});
