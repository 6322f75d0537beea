import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readRegular, readText } from "./read-text.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-texts-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a named pipe without a writer, a device and a folder are refused, and nothing is waited for", () => {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  expect(() => readText(pipe, "chats")).toThrow(
    expect.objectContaining({
      code: "file_unreadable",
      message: `expected chats in ${pipe}, got something that is not a regular file`,
    }),
  );
  expect(() => readRegular("/dev/zero")).toThrow("something that is not a regular file");
  expect(() => readRegular(folder)).toThrow("a folder");
});

test("an input that this process has open is read to its end", () => {
  const path = join(folder, "text");
  writeFileSync(path, "a text");
  const descriptor = openSync(path, "r");
  expect(readText(`/dev/fd/${descriptor}`, "chats")).toBe("a text");
  closeSync(descriptor);
});
