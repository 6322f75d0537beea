/** Writing a copy notes where llama.cpp computes differently from the model. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { readGguf } from "../../formats/gguf/read.js";
import { openModel } from "../../model/open-model.js";
import { writeCopy } from "../convert.js";
import { type CopyNote, plainStorage } from "../weights/tensors.js";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "millrace-notes-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Writes the folder's copy. @returns the copy's path, and the notes */
function copied(folder: string): { readonly file: string; readonly notes: readonly CopyNote[] } {
  const [file, notes] = [join(root, "copy.gguf"), [] as CopyNote[]];
  const source = { path: folder, model: openModel(folder), text: undefined };
  const progress = { onWritten: () => {}, onNote: (note: CopyNote) => void notes.push(note) };
  for (const _ of writeCopy(file, true, source, plainStorage("F32"), progress));
  return { file, notes };
}

test.each(["phi3", "mistral", "starcoder2"])("a window of %s that llama.cpp leaves out is noted", (name) => {
  const notesOf = (window: number | null) => {
    const folder = join(root, `window-${window}`);
    cpSync(fixture(`hf/${name}`), folder, { recursive: true });
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, sliding_window: window }));
    return copied(folder).notes;
  };
  expect(notesOf(16)).toEqual([{ text: expect.stringContaining("llama.cpp"), isAboutTokens: false }]);
  expect(notesOf(null)).toEqual([]);
});

test("a copy of Phi-MoE has llama.cpp's name of the norms' epsilon, and a note that llama.cpp computes it otherwise", () => {
  const { file, notes } = copied(fixture("hf/phimoe"));
  const words = expect.stringMatching(/has RMS norms, and weights of experts by softmax, for phimoe/);
  expect(notes).toContainEqual(expect.objectContaining({ text: words }));
  const { metadata } = readGguf(file);
  const has = (name: string) => metadata.number(`phimoe.attention.layer_norm_${name}`) !== undefined;
  expect([has("rms_epsilon"), has("epsilon")]).toEqual([true, false]);
});
