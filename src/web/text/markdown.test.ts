import { expect, test } from "vitest";
import { htmlOf } from "./markdown.js";

test("a text that is too deep for the parser is shown as it is", () => {
  expect(htmlOf("> quoted")).toContain("<blockquote>");
  for (const deep of [">".repeat(20_000), "- ".repeat(20_000)]) {
    expect(htmlOf(`${deep}<x>`)).toBe(`<pre tabindex="0">${deep.replaceAll(">", "&gt;")}&lt;x&gt;</pre>`);
  }
});
