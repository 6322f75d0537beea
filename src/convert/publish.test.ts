/** File systems that this machine may lack: one without hard links, and a mount point as the folder. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { fixture } from "../../test/helpers/fixtures.js";
import { convertModel } from "./convert.js";

const disk = vi.hoisted(() => ({
  onLink: undefined as (() => void) | undefined,
  onMake: undefined as (() => void) | undefined,
  mountPoint: undefined as string | undefined,
}));

vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  return {
    ...fs,
    mkdtempSync(prefix: string) {
      disk.onMake?.();
      return fs.mkdtempSync(prefix);
    },
    linkSync(from: string, to: string) {
      disk.onLink?.();
      fs.linkSync(from, to);
    },
    lstatSync(path: string, options: object) {
      const found = fs.lstatSync(path, options);
      if (found !== undefined && path === disk.mountPoint) found.dev++;
      return found;
    },
  };
});

/** Number of loaded tokenizers that have not ended. */
const tokenizers = vi.hoisted(() => ({ numOpen: 0 }));

vi.mock("../text/text-side.js", async (original) => {
  const own = await original<typeof import("../text/text-side.js")>();
  return {
    ...own,
    async loadTextSide(path: string) {
      const text = await own.loadTextSide(path);
      const end = text.asyncTokenizer.end.bind(text.asyncTokenizer);
      tokenizers.numOpen++;
      text.asyncTokenizer.end = () => {
        tokenizers.numOpen--;
        end();
      };
      return text;
    },
  };
});

const root = mkdtempSync(join(tmpdir(), "millrace-publish-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => Object.assign(disk, { onLink: undefined, onMake: undefined, mountPoint: undefined }));
afterEach(() => expect(tokenizers.numOpen).toBe(0));

const model = fixture("models/stories260k.gguf");

test.each([
  "EPERM",
  "ENOTSUP",
  "EOPNOTSUPP",
])("a file system without hard links (%s) gets the file all the same", async (code) => {
  const out = join(root, `${code}.gguf`);
  disk.onLink = () => {
    throw Object.assign(new Error(code), { code });
  };
  await convertModel({ model, out, type: "F32" });
  expect(existsSync(out)).toBe(true);
  const taken = join(root, `${code}-taken.gguf`);
  disk.onLink = () => {
    writeFileSync(taken, "mine");
    throw Object.assign(new Error(code), { code });
  };
  await expect(convertModel({ model, out: taken, type: "F32" })).rejects.toMatchObject({ code: "invalid_option" });
  expect(readFileSync(taken, "utf8")).toBe("mine");
});

test("an empty folder that is a mount point is refused before anything is written", async () => {
  const out = join(root, "mounted");
  mkdirSync(out);
  disk.mountPoint = out;
  let numWritten = 0;
  const converting = convertModel({ model, out, type: "F32" }, () => numWritten++);
  await expect(converting).rejects.toMatchObject({
    code: "invalid_option",
    hint: expect.stringContaining(join(out, "model")),
  });
  expect([numWritten, readdirSync(out)]).toEqual([0, []]);
});

test.each(["ENOSPC", "EACCES"])("a disk that cannot take the copy (%s) is said, and nothing is left", async (code) => {
  const before = readdirSync(root);
  disk.onLink = () => {
    throw Object.assign(new Error(`${code}: no`), { code });
  };
  const failing = convertModel({ model, out: join(root, "full.gguf"), type: "F32" });
  await expect(failing).rejects.toMatchObject({ code: "invalid_option", message: expect.stringContaining(code) });
  expect(readdirSync(root)).toEqual(before);
  const long = join(root, `${"a".repeat(250)}.gguf`);
  await expect(convertModel({ model, out: long, type: "F32" })).rejects.toMatchObject({ code: "invalid_option" });
});

test("where no folder can be made beside --out, that is said and no tokenizer is left open", async () => {
  disk.onMake = () => {
    throw Object.assign(new Error("ENOSPC: no space"), { code: "ENOSPC" });
  };
  const failing = convertModel({ model, out: join(root, "nowhere.gguf"), type: "F32" });
  await expect(failing).rejects.toMatchObject({ code: "invalid_option", message: expect.stringContaining("nowhere") });
});

test("an error that is not about the place keeps its own words", async () => {
  disk.onMake = () => {
    throw Object.assign(new Error("EIO: broken"), { code: "EIO" });
  };
  const failing = convertModel({ model, out: join(root, "broken.gguf"), type: "F32" });
  await expect(failing).rejects.toThrow("EIO: broken");
});
