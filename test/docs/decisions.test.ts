/**
 * docs/background/decisions.md: a page for each subject, with the decisions that the table lists, in their order; one
 * number for each decision, without gaps; and references to decisions that exist.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

const folder = join(repositoryRoot(), "docs/background");
const index = readFileSync(join(folder, "decisions.md"), "utf8");
const subjects = [...index.matchAll(/^\| \[[^\]]+\]\(decisions\/(\S+\.md)\) \| ([\d, ]+) \|$/gm)].map(
  ([, page, numbers]) => ({
    page: page!,
    listed: numbers!.split(", ").map(Number),
  }),
);
const pages = new Map(
  readdirSync(join(folder, "decisions")).map((page) => [page, readFileSync(join(folder, "decisions", page), "utf8")]),
);
const headingsOf = (page: string): string[] =>
  [...pages.get(page)!.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading!);
const numberOf = (heading: string): number => Number(/^(\d+)\. \S/.exec(heading)?.[1]);

test("each page is of one subject, and has the decisions that the table lists, in order", () => {
  expect(subjects.map(({ page }) => page).toSorted()).toEqual([...pages.keys()].toSorted());
  for (const { page, listed } of subjects) {
    expect(headingsOf(page).map(numberOf), page).toEqual(listed);
    expect(
      listed.toSorted((a, b) => a - b),
      page,
    ).toEqual(listed);
  }
});

test("decisions are numbered from 1 on, each with a title of its own", () => {
  const headings = [...pages.keys()].flatMap(headingsOf);
  const numbers = headings.map(numberOf).toSorted((a, b) => a - b);
  expect(numbers).toEqual(headings.map((_, i) => i + 1));
  expect(new Set(headings.map((heading) => heading.replace(/^\d+\. /, ""))).size).toBe(headings.length);
});

test("a number in brackets names a decision", () => {
  const numDecisions = [...pages.keys()].flatMap(headingsOf).length;
  const named = [...pages.values()].flatMap((text) =>
    [...text.matchAll(/\((\d{1,3})\)/g)].map(([, number]) => Number(number)),
  );
  expect(named.length).toBeGreaterThan(5);
  for (const number of named) expect(number <= numDecisions, `decision ${number}`).toBe(true);
});
