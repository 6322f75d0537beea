import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockSplitter } from "./blocks.js";

const pieces = fc.array(
  fc.oneof(
    fc.constantFrom(
      "\n",
      "\n\n",
      "```js\n",
      "```",
      "- one\n",
      "# Title\n",
      "| a | b |\n|---|---|\n",
      "> quote\n",
      "1. x\n",
      "\r\n",
    ),
    fc.string({ maxLength: 10 }),
  ),
  { maxLength: 30 },
);

test("blocks of a growing text are the text, and closed ones stay as they are", () => {
  fc.assert(
    fc.property(pieces, (parts) => {
      const splitter = new BlockSplitter();
      let text = "";
      let before: readonly string[] = [];
      for (const part of parts) {
        text += part;
        const { closed, open } = splitter.split(text);
        expect([...closed, open].join("")).toBe(text);
        expect(closed.slice(0, before.length)).toEqual(before);
        before = closed;
      }
    }),
  );
});

test("another text begins anew", () => {
  const splitter = new BlockSplitter();
  splitter.split("# One\n\ntwo\n\nthree");
  expect(splitter.split("four")).toEqual({ closed: [], open: "four" });
});

test("a fence that is open is one block until it ends", () => {
  const splitter = new BlockSplitter();
  expect(splitter.split("```\na\n\nb\n").open).toBe("```\na\n\nb\n");
  expect(splitter.split("```\na\n\nb\n```\n\nc").open).toBe("c");
});

test("a block that is very long goes on as another one, code does not", () => {
  const line = "- an entry\n";
  const { closed, open } = new BlockSplitter().split(line.repeat(10_000));
  expect([...closed, open].join("")).toBe(line.repeat(10_000));
  expect([...closed, open].every((block) => block.length <= 30_000 && block.startsWith(line))).toBe(true);
  const emoji = `a${"😀".repeat(20_000)}`;
  const parts = new BlockSplitter().split(emoji);
  expect([...parts.closed, parts.open].some((block) => /\p{Surrogate}/u.test(block))).toBe(false);
  expect([...parts.closed, parts.open].join("")).toBe(emoji);
  const code = `\`\`\`\n${"a\n".repeat(50_000)}\`\`\`\n`;
  expect(new BlockSplitter().split(code)).toEqual({ closed: [], open: code });
});

test.each([
  "1. **Get the code**\n    - clone\n    - enter it\n2. Build\n",
  "- one\n\n- two\n\n  more of two\n\nText after.\nAnd more.\n",
  "1. Step\n\n   ```sh\n   npm start\n   ```\n\n2. Second\n\n## Heading\n\ntext\n",
  "- a\n\n      indented code\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\nend\n",
])("a list that grows is divided as the whole is: %j", (text) => {
  const blocksOf = ({ closed, open }: { readonly closed: readonly string[]; readonly open: string }) =>
    [...closed, open].map((block) => block.trim()).filter((block) => block !== "");
  const whole = blocksOf(new BlockSplitter().split(text));
  for (let step = 1; step <= 12; step++) {
    const splitter = new BlockSplitter();
    for (let end = step; end < text.length; end += step) splitter.split(text.slice(0, end));
    expect(blocksOf(splitter.split(text))).toEqual(whole);
  }
});
