import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { estimateBytes, modelFileBytes, residentBytes } from "./memory.js";

test("a process counts with all its descendants", () => {
  const status = (kibibytes: number): string => `Name:\tnode\nVmRSS:\t   ${kibibytes} kB\n`;
  const root = tempTree({
    "proc/10/status": status(100),
    "proc/10/task/10/children": "11 12 ",
    "proc/11/status": status(20),
    "proc/11/task/11/children": "13",
    "proc/13/status": status(3),
    // Process 12 has just ended.
  });
  expect(residentBytes(10, root)).toBe(123 * 1024);
  expect(residentBytes(99, root)).toBeUndefined();
});

test("the memory of this process is measured", () => {
  expect(residentBytes(process.pid)).toBeGreaterThan(1e7);
});

test("files, folders and all shards of a split file are counted", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-memory-"));
  const write = (name: string, size: number): string => {
    const path = join(folder, name);
    writeFileSync(path, Buffer.alloc(size));
    return path;
  };
  const first = write("m-00001-of-00002.gguf", 10);
  write("m-00002-of-00002.gguf", 5);
  expect(modelFileBytes(first)).toBe(15);
  expect(modelFileBytes(write("other.gguf", 7))).toBe(7);
  expect(modelFileBytes(folder)).toBe(22);
  expect(modelFileBytes("Qwen/Qwen3-8B")).toBeUndefined();
  expect(estimateBytes("Qwen/Qwen3-8B")).toBeUndefined();
  expect(estimateBytes(first, 1000)).toBeGreaterThan(1015);
});
