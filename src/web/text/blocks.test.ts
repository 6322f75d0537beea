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
