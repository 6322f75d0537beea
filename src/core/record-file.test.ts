import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { RecordFile } from "./record-file.js";

const schema = z.object({ id: z.string() });
const openFile = (path: string) => RecordFile.open(path, schema.parse, "a result", "--journal");

test("an incomplete last line is removed", () => {
  const path = join(tempTree({ journal: '{"id":"a"}\n{"id":"b' }), "journal");
  openFile(path).add({ id: "c" });
  expect(readFileSync(path, "utf8")).toBe('{"id":"a"}\n{"id":"c"}\n');
});

test("a named pipe is refused, and no reader is waited for", () => {
  const path = join(tempTree({}), "pipe.jsonl");
  execFileSync("mkfifo", [path]);
  expect(() => openFile(path)).toThrow(
    expect.objectContaining({ code: "file_unreadable", message: expect.stringContaining("not a regular file") }),
  );
});

test("a file of other lines is refused as it is, with the flag that named it", () => {
  const path = join(tempTree({ notes: "milk\nbread" }), "notes");
  expect(() => openFile(path)).toThrow(
    expect.objectContaining({ code: "file_unreadable", hint: expect.stringContaining("--journal") }),
  );
  expect(readFileSync(path, "utf8")).toBe("milk\nbread");
});

test.each(["folder", "none/journal"])("%s is no place for one", (name) => {
  const path = join(tempTree({ "folder/file": "" }), name);
  expect(() => openFile(path)).toThrow(
    expect.objectContaining({ code: "file_unreadable", hint: expect.stringContaining("--journal") }),
  );
});
