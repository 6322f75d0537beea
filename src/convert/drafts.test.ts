/** Copies of models with a drafting layer: plain copies draft like the model, quantised ones do not draft. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { weightsOnly } from "../../test/helpers/converted.js";
import { draftsAfter } from "../../test/helpers/guesses.js";
import { EXPECTED_DRAFTS, expectDrafts, MTP_MODELS, writeMtpFolder } from "../../test/helpers/mtp-folder.js";
import { readHfFolder } from "../formats/hf/folder.js";
import { openModel } from "../model/open-model.js";
import { openForCopy, writeCopy } from "./convert.js";
import { plainStorage } from "./weights/tensors.js";

const root = mkdtempSync(join(tmpdir(), "millrace-copied-drafts-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

test.each(MTP_MODELS)("%s drafts alike as a file, and as a folder that is a copy of the file", async (name) => {
  const [folder, file, again] = [writeMtpFolder(name, place()), place(".gguf"), place()];
  weightsOnly(folder, file);
  weightsOnly(file, again);
  const { ids, drafts } = EXPECTED_DRAFTS;
  const requests = [{ ids: ids.slice(0, 17) }, { ids, chunk: 7 }];
  for (const copy of [file, again]) {
    const got = await draftsAfter(copy, undefined, requests, 6, "f32");
    expectDrafts(got, [drafts[name][17], drafts[name][ids.length]]);
  }
  const names = (path: string) =>
    [...readHfFolder(path).files.tensors.keys()].filter((key) => /^mtp\.|layers\.3\./.test(key)).sort();
  expect(names(again).length).toBeGreaterThan(14);
  // The fixture's experts are written one by one.
  if (name !== "qwen35moe") expect(names(again)).toEqual(names(folder));
});

test("a copy with quantised matrices leaves the layer out", () => {
  const [folder, file] = [writeMtpFolder("qwen35", place()), place(".gguf")];
  const { plain: _, ...storage } = plainStorage("F32");
  const source = { path: folder, model: openForCopy(folder, file), text: undefined };
  for (const _ of writeCopy(file, true, source, storage, { onWritten: () => {}, onNote: () => {} }));
  expect(openModel(folder).config.draftLayers).toHaveLength(1);
  expect(openModel(file).config.draftLayers).toBeUndefined();
});
