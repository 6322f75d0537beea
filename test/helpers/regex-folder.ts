/**
 * Folders whose tokenizers split text by a regular expression of their own, and the end of its time, with fake timers.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { writeRandomFolder } from "./hf-folder.js";

/** @param out created */
export function writeFolderWithRegex(out: string, regex: string): string {
  const folder = writeRandomFolder(out);
  const path = join(folder, "tokenizer.json");
  const split = { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
  const bytes = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
  const pre_tokenizer = { type: "Sequence", pretokenizers: [split, bytes] };
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), pre_tokenizer }));
  return folder;
}

/** Never ends at a run of a's that something else follows. */
export const CATASTROPHIC = "(a+)+$";

/** Lets the time of a job in the thread pass as soon as one is there. */
export async function atLimit(): Promise<void> {
  await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0), { timeout: 20_000 });
  await vi.advanceTimersByTimeAsync(60_000);
}

export const TIMEOUT = {
  code: "tokenizer_timeout",
  message: expect.stringMatching(/within \d+ s, got no answer: tokenizer\.json has a regular expression of its own$/),
};
