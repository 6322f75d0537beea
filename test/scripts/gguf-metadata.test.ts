/** scripts/gguf-metadata.js sets numbers, and nothing else of the file changes. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readGguf } from "../../src/formats/gguf/read.js";
import { arr, f32, str, u32, writeGguf } from "../../src/formats/gguf/write.js";
import { tempTree } from "./temp-tree.js";

const { withMetadata } = (await import("../../scripts/gguf-metadata.js" as string)) as {
  withMetadata: (bytes: Buffer, values: Readonly<Record<string, number>>) => Buffer;
};

const shown = (path: string) => {
  const file = readGguf(path);
  const bytes = readFileSync(path);
  const tensors = [...file.tensors.values()].map(({ name, byteOffset, byteLength, shape }) => {
    return [name, shape, bytes.subarray(byteOffset, byteOffset + byteLength).toString("hex")];
  });
  return {
    tensors,
    metadata: Object.fromEntries([...file.metadata.keys()].map((key) => [key, file.metadata.get(key)])),
  };
};

test("values are set, again too, and tensors and other entries stay", () => {
  const path = join(tempTree({}), "a.gguf");
  writeGguf(path, {
    metadata: {
      "general.architecture": str("llama"),
      "general.sampling.top_k": f32(3),
      "tokenizer.ggml.tokens": arr("string", ["a", "", "ccc"]),
      "llama.ids": arr("u32", [1, 2, 3]),
      "llama.block_count": u32(2),
    },
    tensors: [
      { name: "one", type: "F32", shape: [3], data: Buffer.from("0102030405060708090a0b0c", "hex") },
      { name: "two", type: "F32", shape: [2, 1], data: Buffer.from("1112131415161718", "hex") },
    ],
  });
  const before = shown(path);
  const once = withMetadata(readFileSync(path), { "general.sampling.temp": 0.5, "general.sampling.top_k": 9 });
  const twice = withMetadata(once, { "general.sampling.temp": 0 });
  writeFileSync(path, twice);
  const after = shown(path);
  expect(after.tensors).toEqual(before.tensors);
  expect(after.metadata).toEqual({ ...before.metadata, "general.sampling.temp": 0, "general.sampling.top_k": 9 });
});
