/** Small tensors of a file that changes after its header was read. */
import { mkdtempSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { openModel } from "../open-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-source-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("a vector has its values; of a file that was cut or removed since, it is refused with the file's path", () => {
  const path = join(folder, "model.gguf");
  writeRandomModel(path, { architecture: "llama", seed: 1 });
  const tensors = openModel(path).tensors();
  const values = () => tensors.values("blk.1.attn_norm.weight", 128);
  expect(values()).toHaveLength(128);
  expect(values().every((value) => Number.isFinite(value) && value !== 0)).toBe(true);
  const unreadable = (message: RegExp) =>
    expect.objectContaining({ code: "file_unreadable", message: expect.stringMatching(message) });
  truncateSync(path, statSync(path).size / 4);
  expect(values).toThrow(unreadable(/model\.gguf, got its end at byte \d+/));
  rmSync(path);
  expect(values).toThrow(unreadable(/model\.gguf, got ENOENT/));
});
