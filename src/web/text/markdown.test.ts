import fc from "fast-check";
import { Lexer } from "marked";
import { expect, test, vi } from "vitest";
import { BlockSplitter } from "./blocks.js";
import { htmlOf } from "./markdown.js";

const N = 20_000;

const htmlInBlocks = (text: string): string => {
  const { closed, open } = new BlockSplitter().split(text);
  return [...closed, open].map(htmlOf).join("");
};
const CHARACTERS: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const withoutSpace = (text: string): string => text.replace(/\s/g, "");
/** The visible text of the page, without white space. */
const visibleIn = (html: string): string =>
  withoutSpace(
    html
      .replace(/<div class="code-bar">.*?<\/div>|<[^>]*>/g, "")
      .replace(/&([a-z]+|#39);/g, (_, name: string) => CHARACTERS[name]!),
  );

/** Before texts were read in pieces, each of these took one to twenty seconds, or was too deep. */
test.each([
  ["spaces", `a${" ".repeat(N)}b`],
  ["a heading of spaces", `# a${" ".repeat(N)}b`, "ab"],
  ["stars", "*a".repeat(N)],
  ["dots before an at", `${"a.".repeat(N)}@`],
  ["dollars", "$a_".repeat(N)],
  ["brackets", "[".repeat(N)],
  ["brackets and parentheses", "[a](".repeat(N)],
  ["strokes", "**a ".repeat(N)],
  ["quotes in each other", ">".repeat(N), ">".repeat(N - 21)],
  ["lists in each other", `${"- ".repeat(N / 2)}x`, `${"-".repeat(N / 2 - 21)}x`],
  [
    "indented lists",
    Array.from({ length: 400 }, (_, i) => `${" ".repeat(2 * i)}- x`).join("\n"),
    "x".repeat(21) + "-x".repeat(379),
  ],
  ["openers of formulas", "\\(a \\[b $$c ".repeat(N / 4), "(a[b$$c".repeat(N / 4)],
  ["tabs", "1\t".repeat(2100)],
  ["spaces without a break", "word\u00a0".repeat(1000)],
  ["wide spaces", "你好，世界\u3000".repeat(700)],
  ["emoji", "😀".repeat(N)],
  ["stars between wide marks", "*a，".repeat(N / 4)],
  ["stars between codes", `${"*a".repeat(240)}\`x\``.repeat(40), `${"a".repeat(240)}x`.repeat(40)],
  ["addresses that end in marks", `https://a/${"!?".repeat(3900)}! `.repeat(3)],
  ["addresses in each other", "https://".repeat(N / 8)],
  ["addresses with strokes", `https://a/${"_".repeat(7900)} `.repeat(3)],
  ["code of brackets", `\`${"[a](".repeat(1900)}\` `.repeat(3), "[a](".repeat(3 * 1900)],
])("%s are read in a time in proportion to them", (_, text, visible = text) => {
  const beginMs = performance.now();
  const html = htmlInBlocks(text);
  // The slowest takes a tenth of a second on an idle core; the limit leaves room for busy machines.
  expect(performance.now() - beginMs).toBeLessThan(5000);
  expect(visibleIn(html)).toBe(withoutSpace(visible));
});

test("nothing of a long text is lost, whatever stands between its words", () => {
  const word = fc.constantFrom(
    "word",
    "你好",
    "，世界。",
    "2nd",
    "😀",
    "😀".repeat(300),
    "字".repeat(700),
    "x".repeat(1999),
  );
  const separator = fc.constantFrom("\t", " ", "\u00a0", "\u3000", "\u2003", "", "\n", ". ");
  const parts = fc.array(fc.tuple(word, separator), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(parts, fc.integer({ min: 1, max: 300 }), (some, numTimes) => {
      const text = `a${some
        .map((part) => part.join(""))
        .join("")
        .repeat(numTimes)
        .slice(0, 70_000)}`.replace(/\p{Surrogate}/gu, "");
      expect(visibleIn(htmlInBlocks(text))).toBe(withoutSpace(text));
    }),
    { numRuns: 60 },
  );
});

test("every line of a long paragraph ends as a line", () => {
  expect(htmlOf("a line of verse\n".repeat(300)).match(/<br>/g)).toHaveLength(299);
});

test("text without spaces is markdown, and so are long codes and addresses in it", () => {
  expect(htmlOf("这是**重要**的内容，请注意。".repeat(40)).match(/<strong>重要<\/strong>/g)).toHaveLength(40);
  for (const length of [600, 7000]) {
    const long = "aZ09".repeat(length / 4);
    expect(htmlOf(`Key: \`${long}\`.`)).toBe(`<p>Key: <code>${long}</code>.</p>\n`);
    const url = `https://example.com/?q=${long}`;
    expect(htmlOf(`See [this one](${url}), or ${url}.`).match(/<a href="[^"]*"/g)).toEqual(
      Array.from({ length: 2 }, () => `<a href="${url}"`),
    );
  }
  // A link after a full piece of text also stays in one piece.
  const late = `${"word ".repeat(390)}[two words](https://example.com/${"a".repeat(300)}) end`;
  expect(htmlOf(late)).toContain(`${"a".repeat(300)}" target="_blank" rel="noopener noreferrer">two words</a> end`);
});

test("a text on which the parser throws is shown as it is", () => {
  const thrower = vi.spyOn(Lexer.prototype, "inlineTokens").mockImplementation(() => {
    throw new Error("Infinite loop");
  });
  try {
    expect(htmlInBlocks("One **word**\n\n<two>")).toBe("<p>One **word**\n\n&lt;two&gt;</p>\n");
  } finally {
    thrower.mockRestore();
  }
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
