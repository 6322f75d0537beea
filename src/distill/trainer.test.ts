import { expect, test } from "vitest";
import { Metadata } from "../formats/gguf/metadata.js";
import type { GgufTensor, TensorType } from "../formats/gguf/types.js";
import { findPython, untrainable } from "./trainer.js";

test("without Python, or without its packages, one command is named that installs them", async () => {
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
  ...{ name, type, shape: [1], shard: 0, byteOffset: 0, byteLength: 2 },
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

test("a model of the family can be trained from, others say why not", () => {
  const matrix = tensor("token_embd.weight", "F16");
  expect(untrainable(file({}, matrix), "network")).toBeUndefined();
  expect(untrainable(file({ "general.architecture": "qwen2" }), "network")).toBe("architecture qwen2");
  expect(untrainable(file({ "general.architecture": "qwen2" }), "tokenizer")).toBeUndefined();
  expect(untrainable(file({ "tokenizer.ggml.pre": "gpt-2" }), "tokenizer")).toBe("tokenizer gpt2/gpt-2");
  expect(untrainable(file({ "tokenizer.ggml.tokens": ["a", "b"] }), "tokenizer")).toBe("other special tokens");
  const packed = tensor("blk.0.attn_q.weight", "Q4_0");
  expect(untrainable(file({}, matrix, packed), "network")).toMatch(/blk\.0\.attn_q\.weight of type Q4_0/);
  expect(untrainable(file({}, tensor("output.weight", "F16")), "network")).toMatch(/output\.weight/);
});
