/** A copy of a model folder with other settings and other tensors. */
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSafetensors } from "../../src/formats/safetensors/read.js";
import { encodeSafetensors } from "./safetensors-writer.js";

type Tensors = Parameters<typeof encodeSafetensors>[0];

interface Changes {
  /** Fields of config.json. */
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly tensors?: (tensors: Tensors) => Tensors;
}

/** @param out created */
export function changedFolder(source: string, out: string, { settings = {}, tensors }: Changes): string {
  cpSync(source, out, { recursive: true });
  const config = join(out, "config.json");
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, "utf8")), ...settings }));
  if (tensors === undefined) return out;
  const files = readSafetensors(source);
  const stored = Array.from(files.tensors.values(), ({ name, dtype, shape, shard, byteOffset, byteLength }) => {
    const data = readFileSync(files.shards[shard]!.path).subarray(byteOffset, byteOffset + byteLength);
    return [name, { dtype, shape, data }] as const;
  });
  for (const { path } of files.shards) rmSync(path.replace(source, out));
  rmSync(join(out, "model.safetensors.index.json"), { force: true });
  writeFileSync(join(out, "model.safetensors"), encodeSafetensors(tensors(Object.fromEntries(stored))));
  return out;
}

/** A bias of ones, or of zeros. */
export const bias = (length: number, value = 1): Tensors[string] => ({
  dtype: "F32",
  shape: [length],
  data: new Uint8Array(new Float32Array(length).fill(value).buffer),
});
