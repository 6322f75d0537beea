/**
 * Opens a GGUF model, whole or split into shards, and returns its checked metadata and tensor table; tensor data is
 * left to the kernels.
 */
import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";
import { type GgufHeader, parseHeader } from "./header.js";
import { HeaderReader } from "./header-reader.js";
import { MAX_SHARDS } from "./limits.js";
import { Metadata } from "./metadata.js";
import { parseSplitName, splitName } from "./split-names.js";
import type { GgufFile, GgufShard, GgufTensor } from "./types.js";

interface ReadShard extends GgufShard {
  readonly header: GgufHeader;
  readonly metadata: Metadata;
}

/**
 * Reads the header of the file at `path`; of a split model, any shard stands for all.
 *
 * @example readGguf("model.gguf").tensors.get("token_embd.weight")?.shape
 */
export function readGguf(path: string): GgufFile {
  const given = readShard(path, parseSplitName(path)?.number ?? 1);
  const shards = isSplit(given) ? readAllShards(given) : [given];
  const tensors = new Map<string, GgufTensor>();
  for (const shard of shards) {
    for (const tensor of shard.header.tensors) {
      if (tensors.has(tensor.name)) {
        throw splitError(`expected every tensor in one shard, got "${tensor.name}" again in ${shard.path}`);
      }
      tensors.set(tensor.name, tensor);
    }
  }
  const first = shards[0]!;
  if (isSplit(first)) checkTensorCount(first.metadata, tensors.size);
  return {
    version: first.header.version,
    // gguf-split leaves the model's metadata in the first shard only.
    metadata: first.metadata,
    tensors,
    shards: shards.map(({ path, byteLength }) => ({ path, byteLength })),
  };
}

/** `shardNumber` counts from 1, as in file names. */
function readShard(path: string, shardNumber: number): ReadShard {
  const fd = openRegularFile(path);
  try {
    const byteLength = fstatSync(fd).size;
    const header = parseHeader(new HeaderReader(path, byteLength, fd), shardNumber - 1);
    return { path, byteLength, header, metadata: new Metadata(header.metadata) };
  } catch (thrown) {
    throw thrown instanceof MillraceError ? thrown : unreadable(path, thrown);
  } finally {
    closeSync(fd);
  }
}

function openRegularFile(path: string): number {
  try {
    // Looked at before opening: opening a pipe would wait for its writer.
    if (statSync(path).isFile()) return openSync(path, "r");
  } catch (thrown) {
    throw unreadable(path, thrown);
  }
  throw new MillraceError("file_unreadable", `expected a file at ${path}, got something else`, {
    hint: "pass the path of a .gguf file",
  });
}

function unreadable(path: string, thrown: unknown): MillraceError {
  const got = thrown instanceof Error ? thrown.message : String(thrown);
  return new MillraceError("file_unreadable", `expected a readable file at ${path}, got ${got}`, {
    hint: "check the path and its permissions",
    cause: thrown,
  });
}

function isSplit(shard: ReadShard): boolean {
  return (shard.metadata.number("split.count") ?? 1) > 1;
}

function readAllShards(given: ReadShard): readonly ReadShard[] {
  const count = given.metadata.number("split.count") ?? 1;
  if (count > MAX_SHARDS) throw splitError(`expected at most ${MAX_SHARDS} shards, got ${count} in ${given.path}`);
  const name = parseSplitName(given.path);
  if (name === undefined || name.count !== count) {
    const expected = `expected a name ending in -0000N-of-${String(count).padStart(5, "0")}.gguf for a model of ${count} shards`;
    throw splitError(`${expected}, got ${given.path}`);
  }
  const shards: ReadShard[] = [];
  for (let number = 1; number <= count; number += 1) {
    const shard = number === name.number ? given : readSibling(splitName(name.prefix, number, count), number);
    checkShard(shard, number, count);
    shards.push(shard);
  }
  return shards;
}

function readSibling(path: string, number: number): ReadShard {
  try {
    return readShard(path, number);
  } catch (thrown) {
    if (!(thrown instanceof MillraceError) || thrown.code !== "file_unreadable") throw thrown;
    throw new MillraceError("gguf_split", `expected all shards of the model in one folder, got none at ${path}`, {
      hint: "download the missing shard next to the others",
      cause: thrown,
    });
  }
}

function checkShard(shard: ReadShard, number: number, count: number): void {
  const foundIndex = shard.metadata.number("split.no");
  const foundCount = shard.metadata.number("split.count");
  if (foundIndex === number - 1 && foundCount === count) return;
  throw splitError(
    `expected shard ${number - 1} of ${count} in ${shard.path}, got shard ${foundIndex ?? "?"} of ${foundCount ?? "?"}`,
  );
}

function checkTensorCount(metadata: Metadata, numTensors: number): void {
  const expected = metadata.number("split.tensors.count");
  if (expected === undefined || expected === numTensors) return;
  throw splitError(`expected ${expected} tensors in all shards, got ${numTensors}`);
}

function splitError(message: string): MillraceError {
  return new MillraceError("gguf_split", message, { hint: "download all shards of one model again, names unchanged" });
}
