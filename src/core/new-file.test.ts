import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { assertNewFile, assertNewText, assertReplaceable, isSameFile, replaceFile } from "./new-file.js";

test("a place that can be written is left as it was", () => {
  const path = join(tempTree({}), "new");
  assertNewFile(path);
  expect(existsSync(path)).toBe(false);
});

test.each([
  ["something that is there", "file", "expected nothing at"],
  ["a missing folder", "none/new", "expected a folder for"],
  ["a file in place of the folder", "file/new", "expected to write"],
  ["a name that is too long", "n".repeat(300), "expected to write"],
])("%s is refused", (_, name, message) => {
  const root = tempTree({ file: "content" });
  expect(() => assertNewFile(join(root, name))).toThrow(
    expect.objectContaining({ code: "invalid_option", message: expect.stringContaining(message) }),
  );
  expect(existsSync(join(root, "file"))).toBe(true);
});

test.each(["file", "link", "new"])("%s is replaced as a whole, and a check leaves it as it was", (name) => {
  const root = tempTree({ file: "content" });
  symlinkSync("file", join(root, "link"));
  const path = join(root, name);
  assertReplaceable(path);
  expect(readFileSync(join(root, "file"), "utf8")).toBe("content");
  replaceFile(path, "other");
  expect(readFileSync(path, "utf8")).toBe("other");
  expect(readFileSync(join(root, "file"), "utf8")).toBe(name === "new" ? "content" : "other");
  expect(readdirSync(root)).toEqual(name === "new" ? ["file", "link", "new"] : ["file", "link"]);
});

test.each([
  ["a folder", "folder", "expected a file or nothing at"],
  ["a missing folder", "none/new", "expected a folder for"],
  ["a file in place of the folder", "folder/file/new", "expected to write"],
  ["a name that is too long", "n".repeat(300), "expected to write"],
])("%s cannot be replaced", (_, name, message) => {
  const path = join(tempTree({ "folder/file": "content" }), name);
  expect(() => assertReplaceable(path)).toThrow(
    expect.objectContaining({ code: "invalid_option", message: expect.stringContaining(message) }),
  );
});

test("a file that cannot be written whole stays as it was", () => {
  const root = tempTree({ "folder/file": "content" });
  expect(() => replaceFile(join(root, "folder"), "text")).toThrow(expect.objectContaining({ code: "invalid_option" }));
  expect([readdirSync(root), readdirSync(join(root, "folder"))]).toEqual([["folder"], ["file"]]);
});

test("text goes into pipes, devices and outputs, behind what was written there", async () => {
  const pipe = join(tempTree({}), "pipe");
  execFileSync("mkfifo", [pipe]);
  const reader = spawn("cat", [pipe], { stdio: ["ignore", "pipe", "ignore"] });
  for (const path of [pipe, "/dev/null", "/dev/stdout", "/dev/fd/1", "/dev/stderr"]) {
    assertNewText(path);
    assertReplaceable(path);
  }
  replaceFile(pipe, "text");
  const [read] = await once(reader.stdout, "data");
  expect(String(read)).toBe("text");
  replaceFile("/dev/null", "text");
  expect(statSync("/dev/null").isCharacterDevice()).toBe(true);
  expect(() => assertNewFile("/dev/null")).toThrow("expected nothing at /dev/null");
  expect(() => assertReplaceable("/dev/fd/999")).toThrow("expected to write /dev/fd/999");
  const written: unknown[] = [];
  const stdout = vi.spyOn(process.stdout, "write").mockImplementation((text) => written.push(text) > 0);
  for (const path of ["/dev/stdout", "/proc/self/fd/1"]) replaceFile(path, path);
  stdout.mockRestore();
  expect(written).toEqual(["/dev/stdout", "/proc/self/fd/1"]);
});

test("a link is the same file as where it leads, and missing files are told apart by their places", () => {
  const root = tempTree({ file: "content", other: "content" });
  symlinkSync("file", join(root, "link"));
  const isSame = (a: string, b: string) => isSameFile(join(root, a), join(root, b));
  expect([isSame("file", "link"), isSame("none", "x/../none")]).toEqual([true, true]);
  expect([isSame("file", "other"), isSame("none", "file")]).toEqual([false, false]);
});
