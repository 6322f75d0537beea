import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeEagle3 } from "../../../test/helpers/eagle3-folder.js";
import { randomMedusa, writeMedusa } from "../../../test/helpers/medusa-folder.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { candidatesOf, contentOf, type DrafterChoice, drafterFrom, draftersBeside } from "./candidates.js";

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

test("folders of heads from the hub are known by name and beside a model, and other folders are not", () => {
  const folder = tempTree({ "model.gguf": "", "base/config.json": '{"medusa_num_heads": 5}' });
  const [eagle3, medusa, pickle] = ["eagle3", "medusa", "pickle"].map((name) => join(folder, name)) as [
    never,
    never,
    never,
  ];
  writeEagle3(eagle3, { width: 8, vocab: 16, draftVocab: 8, inputLayers: [0] });
  writeMedusa(medusa, randomMedusa({ width: 8, vocab: 16, numHeads: 2, numBlocks: 1 }));
  writeMedusa(pickle, {});
  renameSync(join(pickle, "medusa_lm_head.safetensors"), join(pickle, "medusa_lm_head.pt"));
  expect(draftersBeside(join(folder, "model.gguf"))).toEqual([
    { method: "eagle3", path: eagle3 },
    { method: "medusa", path: medusa },
    { method: "medusa", path: pickle },
  ]);
  expect(drafterFrom("--drafter", "mtp")).toEqual({ method: "mtp", path: undefined });
  expect(drafterFrom("--drafter", medusa)).toEqual({ method: "medusa", path: medusa });
  expect(drafterFrom("--drafter", `auto+${medusa}`)).toEqual({ method: "auto", path: medusa });
});
