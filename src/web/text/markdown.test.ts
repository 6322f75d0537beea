import { expect, test } from "vitest";
import { BlockSplitter } from "./blocks.js";
import { htmlOf } from "./markdown.js";

const N = 20_000;

/** Each took from one to twenty seconds, or was too deep, before texts were read in pieces. */
test.each([
  ["spaces", `a${" ".repeat(N)}b`],
  ["a heading of spaces", `# a${" ".repeat(N)}b`],
  ["stars", "*a".repeat(N)],
  ["dots before an at", `${"a.".repeat(N)}@`],
  ["dollars", "$a_".repeat(N)],
  ["brackets", "[".repeat(N)],
  ["brackets and parentheses", "[a](".repeat(N)],
  ["strokes", "**a ".repeat(2 * N)],
  ["quotes in each other", ">".repeat(N)],
  ["lists in each other", `${"- ".repeat(N)}x`],
  ["indented lists", Array.from({ length: 400 }, (_, i) => `${" ".repeat(2 * i)}- x`).join("\n")],
  ["openers of formulas", "\\(a \\[b $$c ".repeat(N / 4)],
])("%s are read in a time in proportion to them", (_, text) => {
  const beginMs = performance.now();
  const { closed, open } = new BlockSplitter().split(text);
  const html = [...closed, open].map(htmlOf).join("");
  // The slowest takes a tenth of a second on an idle core.
  expect(performance.now() - beginMs).toBeLessThan(1500);
  const read = html.replace(/<[^>]*>/g, "").replace(/\s/g, "");
  expect(read.length).toBeGreaterThan(0);
});

test("markdown that is long is markdown: only words without an end, and what is very deep, are plain", () => {
  const sentence = "One **word** is [bold](https://example.com/). ";
  const html = htmlOf(sentence.repeat(100));
  expect(html.match(/<strong>word<\/strong>/g)).toHaveLength(100);
  expect(html.match(/<a href/g)).toHaveLength(100);
  expect(htmlOf(`a **b** ${"*c*".repeat(500)} **d**`)).toBe(
    `<p>a <strong>b</strong> ${"*c*".repeat(500)} <strong>d</strong></p>\n`,
  );
  const deep = htmlOf(`${">".repeat(30)}x`);
  expect(deep.match(/<blockquote>/g)!.length).toBeLessThan(25);
  expect(deep).toContain("&gt;&gt;x");
});
