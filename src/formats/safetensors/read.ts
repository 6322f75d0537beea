/**
 * Opens the weights of a model folder: one safetensors file, or the shards that an index names. Tensor data is left to
 * others.
 */
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { readJsonFile, shownValue } from "../files/json.js";
import { readHeader } from "./header.js";
import type { SafetensorsFiles, SafetensorsShard, SafetensorsTensor } from "./types.js";

export const SINGLE_NAME = "model.safetensors";
export const INDEX_NAME = "model.safetensors.index.json";

const MAX_INDEX_BYTES = 32 * 1024 * 1024;
const MAX_SHARDS = 1024;
/** File names in the same folder; paths that lead out of it are refused. */
const SHARD_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]*\.safetensors$/;

/** @example readSafetensors("models/qwen3").tensors.get("model.norm.weight")?.shape */
export function readSafetensors(folder: string): SafetensorsFiles {
  const indexPath = join(folder, INDEX_NAME);
  // A folder with both was merged after the index was written or the other way round; transformers prefers the single
  // file, too.
  if (existsSync(join(folder, SINGLE_NAME)) || !existsSync(indexPath)) return readShards(folder, [SINGLE_NAME]);
  const shardByName = readIndex(indexPath);
  const names = [...new Set(shardByName.values())].sort();
  const files = readShards(folder, names);
  for (const [name, shardName] of shardByName) {
    const shard = files.tensors.get(name)?.shard;
    if (shard === undefined || names[shard] !== shardName) {
      throw indexError(indexPath, `expected ${JSON.stringify(name.slice(0, 80))} in ${shardName}, got none there`);
    }
  }
  return files;
}

/** One file, whatever its name. */
export const readSafetensorsFile = (path: string): SafetensorsFiles => readShards(dirname(path), [basename(path)]);

/** The names of the weight files an index lists, each once. */
export function shardNamesOfIndex(indexPath: string): readonly string[] {
  return [...new Set(readIndex(indexPath).values())].sort();
}

function readIndex(path: string): ReadonlyMap<string, string> {
  const map = readJsonFile(path, MAX_INDEX_BYTES).object("weight_map");
  if (map === undefined) throw indexError(path, "expected a weight_map, got none");
  const shardByName = new Map<string, string>();
  for (const [name, shard] of Object.entries(map.raw)) {
    if (typeof shard !== "string" || !SHARD_NAME.test(shard)) {
      throw indexError(path, `expected plain names of .safetensors files, got ${shownValue(shard)}`);
    }
    shardByName.set(name, shard);
  }
  const numShards = new Set(shardByName.values()).size;
  if (numShards === 0 || numShards > MAX_SHARDS) {
    throw indexError(path, `expected 1 to ${MAX_SHARDS} files, got ${numShards}`);
  }
  return shardByName;
}

function readShards(folder: string, names: readonly string[]): SafetensorsFiles {
  const tensors = new Map<string, SafetensorsTensor>();
  const shards: SafetensorsShard[] = [];
  for (const [index, name] of names.entries()) {
    const path = join(folder, name);
    const header = readHeader(path, index);
    shards.push({ path, byteLength: header.byteLength });
    for (const tensor of header.tensors) {
      if (tensors.has(tensor.name)) {
        throw indexError(path, `expected every tensor in one file, got ${JSON.stringify(tensor.name)} again`);
      }
      tensors.set(tensor.name, tensor);
    }
  }
  return { tensors, shards };
}

function indexError(path: string, message: string): MillraceError {
  return new MillraceError("safetensors_index", `${path}: ${message}`, {
    hint: "Put all files of the model in one folder, from one download.",
  });
}
