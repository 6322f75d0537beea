/** The first fault of a GGUF header decides how it is refused: a model of another kind is unsupported, whatever else its header lacks. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readGguf } from "../../formats/gguf/read.js";
import { str, u32, writeGguf } from "../../formats/gguf/write.js";
import { servableGguf } from "./servable.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-servable-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function header(metadata: Parameters<typeof writeGguf>[1]["metadata"]) {
  const path = join(folder, "model.gguf");
  writeGguf(path, { metadata: { "general.architecture": str("qwen2"), ...metadata }, tensors: [] });
  return readGguf(path);
}

test("experts are unsupported before their other keys are read", () => {
  const gguf = header({ "qwen2.expert_count": u32(8) });
  expect(() => servableGguf(gguf)).toThrow(expect.objectContaining({ code: "architecture_unsupported" }));
});

test("a file without weights says so, whatever its header lacks", () => {
  const gguf = header({ "qwen2.block_count": u32(2) });
  expect(() => servableGguf(gguf)).toThrow(
    expect.objectContaining({ code: "gguf_tensor", hint: expect.stringContaining("no model weights") }),
  );
});
