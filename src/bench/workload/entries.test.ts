import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readEntries } from "./entries.js";

const folder = mkdtempSync(join(tmpdir(), "entries-"));
afterAll(() => rmSync(folder, { recursive: true }));

function entriesOf(...lines: readonly unknown[]) {
  const path = join(folder, "prompts.jsonl");
  writeFileSync(path, lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
  return readEntries(path, 64);
}

test("prompts and traces are ordered by time, and times start at the first entry", () => {
  const messages = [{ role: "user", content: "hi" }];
  expect(
    entriesOf(
      { timestamp: 5100, input_length: 700, output_length: 9, hash_ids: [3, 4] },
      "",
      { timestamp: 5000, prompt: [1, 2], max_tokens: 5, model: "whatever" },
      { timestamp: 5000, messages },
    ),
  ).toEqual([
    { prompt: [1, 2], outputTokens: 5, atMs: 0 },
    { messages, outputTokens: 64, atMs: 0 },
    { promptTokens: 700, pieces: [3, 4], outputTokens: 9, atMs: 100 },
  ]);
});

test.each([
  [["{"], /line 1: SyntaxError/],
  [[{ prompt: "a" }, { prompt: "a", input_length: 3 }], /line 2: .*one of prompt, messages and input_length/s],
  [[{ prompt: "a", max_tokens: 0 }], /line 1: .*max_tokens/s],
  [[""], /an empty file/],
] as const)("a bad line is refused with its number: %j", (lines, message) => {
  expect(() => entriesOf(...lines)).toThrow(message);
});

test("a missing file is refused", () => {
  expect(() => readEntries(join(folder, "none"), 1)).toThrow(
    expect.objectContaining({ code: "file_unreadable", message: expect.stringMatching(/got no file of that name$/) }),
  );
});
