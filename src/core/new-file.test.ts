import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { assertNewFile } from "./new-file.js";

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
