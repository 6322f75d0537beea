import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Metadata } from "../formats/gguf/metadata.js";
import type { GgufTensor, TensorType } from "../formats/gguf/types.js";
import { findPython, heldOutLog, untrainable } from "./trainer.js";

test("without Python or its packages, the error has a command that installs them", async () => {
  const chosen = findPython({ MILLRACE_PYTHON: "/nowhere/python" });
  await expect(chosen).rejects.toMatchObject({
    code: "python_missing",
    message: expect.stringContaining("no such program"),
    hint: expect.stringMatching(/^run: "\/nowhere\/python" -m pip install -r ".*models.requirements\.txt"/),
  });
  await expect(findPython({ PATH: "/nowhere", MILLRACE_CACHE: "/nowhere" })).rejects.toMatchObject({
    code: "python_missing",
    hint: expect.stringMatching(/^run: python3 -m venv "\/nowhere.python" && "\/nowhere.*python" -m pip install -r /),
  });
});

const tensor = (name: string, type: TensorType): GgufTensor => ({
  name,
  type,
  shape: [1],
  shard: 0,
  byteOffset: 0,
  byteLength: 2,
});
const file = (changes: Record<string, string | readonly string[]> = {}, ...tensors: readonly GgufTensor[]) => ({
  version: 3,
  metadata: new Metadata(
    new Map(
      Object.entries({
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "starcoder",
        "tokenizer.ggml.tokens": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a"],
        ...changes,
      }),
    ),
  ),
  tensors: new Map(tensors.map((each) => [each.name, each])),
  shards: [],
});

test("models of the family can be trained from; others have a reason why not", () => {
  const matrix = tensor("token_embd.weight", "F16");
  expect(untrainable(file({}, matrix), "network")).toBeUndefined();
  expect(untrainable(file({}, tensor("blk.0.attn_q.weight", "Q8_0")), "network")).toBeUndefined();
  expect(untrainable(file({ "general.architecture": "qwen2" }), "network")).toBe("architecture qwen2");
  expect(untrainable(file({ "general.architecture": "qwen2" }), "tokenizer")).toBeUndefined();
  expect(untrainable(file({ "tokenizer.ggml.pre": "gpt-2" }), "tokenizer")).toBe("tokenizer gpt2/gpt-2");
  expect(untrainable(file({ "tokenizer.ggml.tokens": ["a", "b"] }), "tokenizer")).toBe("other special tokens");
  const packed = tensor("blk.0.attn_q.weight", "Q4_0");
  expect(untrainable(file({}, matrix, packed), "network")).toMatch(/blk\.0\.attn_q\.weight of type Q4_0/);
  expect(untrainable(file({}, tensor("output.weight", "F16")), "network")).toMatch(/output\.weight/);
});

test("a run stopped before its last step is not finished", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-trainer-"));
  try {
    const entries = [
      { step: 0, chats: { used: 9, cut: 2 } },
      { step: 20, held_out: { all: 1.5 } },
      { step: 31, loss: 1.2 },
    ];
    writeFileSync(join(folder, "log.jsonl"), entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    expect(heldOutLog(folder, 20)).toEqual({ losses: { all: 1.5 }, numUsed: 9, numCut: 2 });
    expect(() => heldOutLog(folder, 40)).toThrow(/training up to step 40, got its end at step 31/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
