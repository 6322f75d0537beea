/**
 * Files that are no model, or only nearly one: commands end with a code on stderr, not with a stack, a hang or a crash.
 */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

const LAUNCHER = join(repositoryRoot(), "bin/millrace.js");
const STORIES = readFileSync(fixture("models/stories260k.gguf"));

/** The model with `change` applied to its bytes `offset` bytes behind the end of `marker`. */
function changed(marker: string, offset: number, change: (bytes: Buffer, at: number) => void): Buffer {
  const bytes = Buffer.from(STORIES);
  const found = bytes.indexOf(marker);
  if (found < 0) throw new Error(`expected ${marker} in the fixture, got nothing`);
  change(bytes, found + marker.length + offset);
  return bytes;
}

/** Behind a key come a type of 4 bytes and, for text, a length of 8. */
const number = (key: string, value: number) => changed(key, 4, (bytes, at) => bytes.writeUInt32LE(value, at));
const text = (key: string, value: string) => changed(key, 12, (bytes, at) => bytes.write(value, at, "latin1"));

const FILES: readonly (readonly [name: string, content: Buffer | "folder" | "nothing", code: string])[] = [
  ["cut in the header", STORIES.subarray(0, 200), "gguf_truncated"],
  ["cut in the weights", STORIES.subarray(0, 600_000), "gguf_truncated"],
  ["empty", Buffer.alloc(0), "gguf_not_gguf"],
  ["another format", Buffer.from("PK\x03\x04 not a model"), "gguf_not_gguf"],
  ["a folder without a model", "folder", "file_unreadable"],
  ["not there", "nothing", "file_unreadable"],
  ["noise behind the header", Buffer.concat([STORIES.subarray(0, 24), Buffer.alloc(9999, 0x9c)]), "gguf_corrupt"],
  ["a count of 2^60", changed("GGUF", 4, (bytes, at) => bytes.writeBigUInt64LE(2n ** 60n, at)), "gguf_corrupt"],
  ["a tensor missing", changed("blk.0.attn_q", 0, (bytes, at) => bytes.write("X", at - 1)), "gguf_tensor"],
  ["another width than its tensors have", number("llama.embedding_length", 128), "gguf_tensor"],
  ["no heads", number("llama.attention.head_count", 0), "gguf_metadata"],
  ["another architecture", text("general.architecture", "mamba"), "architecture_unsupported"],
  ["another tokenizer", text("tokenizer.ggml.model", "wordp"), "tokenizer_unsupported"],
  ["fewer tokens than embeddings", withoutLastToken(), "gguf_tensor"],
];

/** The vocabulary without its last token: the last entry of each of its arrays is cut out, and their lengths say so. */
function withoutLastToken(): Buffer {
  let bytes = Buffer.from(STORIES);
  for (const key of ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"]) {
    const lengthAt = bytes.indexOf(key) + key.length + 8;
    const type = bytes.readUInt32LE(lengthAt - 4);
    const length = Number(bytes.readBigUInt64LE(lengthAt));
    let lastAt = lengthAt + 8;
    for (let i = 0; i < length - 1; i++) lastAt += type === 8 ? 8 + Number(bytes.readBigUInt64LE(lastAt)) : 4;
    const end = lastAt + (type === 8 ? 8 + Number(bytes.readBigUInt64LE(lastAt)) : 4);
    bytes.writeBigUInt64LE(BigInt(length - 1), lengthAt);
    bytes = Buffer.concat([bytes.subarray(0, lastAt), bytes.subarray(end)]);
  }
  return bytes;
}

function generate(path: string): Promise<{ readonly stderr: string; readonly exitCode: number | null }> {
  const args = [LAUNCHER, "generate", "--model", path, "--prompt", "a", "--max-tokens", "1"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
  });
  return new Promise((resolve) => child.once("close", (exitCode) => resolve({ stderr, exitCode })));
}

test.each(FILES)("%s", async (_, content, code) => {
  const path = join(tempTree({}), "model.gguf");
  if (content === "folder") mkdirSync(path);
  else if (content !== "nothing") writeFileSync(path, content);
  const { stderr, exitCode } = await generate(path);
  expect(stderr).toMatch(new RegExp(`^error \\[${code}\\]: expected .*got `, "m"));
  expect(stderr).not.toMatch(/^ +at /m);
  expect(exitCode).toBe(1);
});
