import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { everyLineOf, isBlank, type Line, linesOf } from "./lines.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-lines-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function read(content: Buffer | string, maxLineBytes = 1000, from = linesOf): Promise<readonly Line[]> {
  const path = join(folder, "in.jsonl");
  writeFileSync(path, content);
  const handle = await open(path, "r");
  try {
    const lines: Line[] = [];
    for await (const line of from(handle, maxLineBytes)) lines.push(line);
    return lines;
  } finally {
    await handle.close();
  }
}

const shown = (lines: readonly Line[]) => lines.map(({ number, bytes }) => [number, bytes?.toString()]);

test("lines end with \\n or \\r\\n, the last one with nothing; blank ones count", async () => {
  expect(shown(await read("a\r\nb\n\n \t\nc"))).toEqual([
    [1, "a"],
    [2, "b"],
    [5, "c"],
  ]);
});

test("blank lines come too where every line is asked for", async () => {
  const lines = await read("a\n\n \t\r\nb", 1000, everyLineOf);
  expect(lines.map((line) => [line.number, line.offset, isBlank(line)])).toEqual([
    [1, 0, false],
    [2, 2, true],
    [3, 3, true],
    [4, 7, false],
  ]);
});

test("a byte order mark is no part of the first line", async () => {
  const [line] = await read("\ufeffa\n");
  expect(line).toMatchObject({ number: 1, offset: 3, length: 1 });
});

test("a line longer than the limit comes without its bytes, and the next one is read", async () => {
  const lines = await read(`${"x".repeat(3_000_000)}\n${"y".repeat(10)}\n${"z".repeat(11)}`, 10);
  expect(lines.map(({ length, bytes }) => [length, bytes?.toString()])).toEqual([
    [3_000_000, undefined],
    [10, "yyyyyyyyyy"],
    [11, undefined],
  ]);
});

test("an empty file has no lines", async () => {
  expect(await read("")).toEqual([]);
});

test("offset and length find every line again, wherever slices end", async () => {
  const line = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 20 }).map((text) => text.replace(/[\r\n]/g, "")),
    fc.integer({ min: 262_130, max: 262_160 }).map((length) => "w".repeat(length)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 12 }), fc.constantFrom("\n", "\r\n"), async (texts, end) => {
      const content = Buffer.from(texts.map((text) => text + end).join(""));
      const expected = texts.flatMap((text, i) => (/^[ \t]*$/.test(text) ? [] : [[i + 1, text]]));
      const lines = await read(content, 300_000);
      expect(shown(lines)).toEqual(expected);
      for (const { offset, length, bytes } of lines) {
        expect(content.subarray(offset, offset + length).equals(bytes!)).toBe(true);
      }
    }),
    { numRuns: 60 },
  );
});
