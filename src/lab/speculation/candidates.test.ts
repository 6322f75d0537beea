import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { candidatesOf, contentOf, type DrafterChoice } from "./candidates.js";

const heads = (path: string): DrafterChoice => ({ method: "heads", path });

test("drafters whose files have one name are told apart by their paths", () => {
  const names = candidatesOf([heads("/run1/heads.gguf"), heads("/run2/heads.gguf"), heads("/other.gguf")], [4], false);
  expect(names.map(({ name }) => name).slice(0, 3)).toEqual([
    "/run1/heads.gguf, 4 tokens",
    "/run2/heads.gguf, 4 tokens",
    "other.gguf, 4 tokens",
  ]);
});

test("a drafter named twice is one candidate", () => {
  expect(candidatesOf([heads("/heads.gguf"), heads("/heads.gguf")], [4], false)).toHaveLength(2);
});

test("a drafter that is trained anew has other content", () => {
  const folder = tempTree({ "heads.gguf": "old" });
  const path = join(folder, "heads.gguf");
  const before = [contentOf(heads(path)), contentOf(heads(folder))];
  writeFileSync(path, "new");
  expect([contentOf(heads(path)), contentOf(heads(folder))]).not.toEqual(before);
  expect(contentOf({ method: "ngram", path: undefined })).toBeUndefined();
});
