import { Marked } from "marked";
import { expect, test } from "vitest";
import { BlockSplitter } from "./blocks.js";
import { type MathToken, mathSyntax } from "./math-syntax.js";

const marked = new Marked(mathSyntax);

/** The formulas' sources; those on their own lines are in brackets. */
function formulasIn(text: string): readonly string[] {
  const found: string[] = [];
  marked.walkTokens(marked.lexer(text), (token) => {
    if (token.type !== "math") return;
    const { source, isDisplay } = token as MathToken;
    found.push(isDisplay ? `[${source.trim()}]` : source.trim());
  });
  return found;
}

test.each([
  ["Then \\(a_1 < b\\) and \\(c\\).", ["a_1 < b", "c"]],
  ["\\[ x = 1 \\]", ["[x = 1]"]],
  ["So:\n\\[\na\n=\nb\n- c\n\\]\nholds.", ["[a\n=\nb\n- c]"]],
  ["$$\nx^2\n$$\n\nand $$y$$ too", ["[x^2]", "[y]"]],
  ["1. One:\n\n   \\[\n   x\n   \\]\n", ["[x]"]],
  ["**Bold $a_1$** and $a^2 + b^2 = c^2$, or $x$.", ["a_1", "a^2 + b^2 = c^2", "x"]],
  ["It costs $5 or $10, or US$5-$10, or 5$ and 10$.", []],
  ["From $HOME_A to $HOME_B, $PATH=$HOME/bin:$PATH", []],
  ["echo $$ and $! and \\$x_1$", []],
  ["The sum \\[ x = 1 \\] is here, and $$y^2$$.", ["[x = 1]", "[y^2]"]],
  ["\\[link\\](x), \\[a_b\\](x) and \\[note 1\\], word\\[a_1\\]", []],
  ["It costs $$5 to $$10 per unit", []],
  ["$$5 to $$10 per unit", []],
  ["`$a_1$` and `\\(b\\)`", []],
  ["```\n\\[ x \\]\n$$y$$\n```", []],
  ["\\\\(a\\\\)", []],
  ["\\[ a\n\nb \\]", []],
  [`\\(${"x".repeat(3001)}\\)`, []],
] as const)("mathematics in %j", (text, expected) => {
  expect(formulasIn(text)).toEqual(expected);
});

test("a formula whose end is still to come is one block", () => {
  const splitter = new BlockSplitter();
  const text = "So:\n\\[\na\n=\nb\n- c\n\\]\n\nEnd";
  for (let end = 1; end < text.length; end++) splitter.split(text.slice(0, end));
  const { closed, open } = splitter.split(text);
  expect([...closed.flatMap(formulasIn), open]).toEqual(["[a\n=\nb\n- c]", "End"]);
});
