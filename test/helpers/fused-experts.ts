/** A folder with experts as transformers 5 has them in memory, and writes them without its original format: two tensors for all of a layer. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSafetensors } from "../../src/formats/safetensors/read.js";
import { encodeSafetensors } from "./safetensors-writer.js";

const EXPERT = /^(.*)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(gate_proj|up_proj|down_proj|w1|w2|w3)\.weight$/;
const DOWN: readonly (string | undefined)[] = ["down_proj", "w2"];
const GATE: readonly (string | undefined)[] = ["gate_proj", "w1"];

interface Stack {
  readonly rows: number;
  readonly cols: number;
  /** By expert, and gate before up. */
  readonly parts: Buffer[];
}

/** @param source a folder of Mixtral or Qwen3 MoE in BF16 @param out created */
export function writeFusedFolder(source: string, out: string): string {
  cpSync(source, out, { recursive: true });
  const files = readSafetensors(source);
  const tensors: Record<string, Parameters<typeof encodeSafetensors>[0][string]> = {};
  const stacks = new Map<string, Stack>();
  for (const { name, dtype, shape, shard, byteOffset, byteLength } of files.tensors.values()) {
    const data = readFileSync(files.shards[shard]!.path).subarray(byteOffset, byteOffset + byteLength);
    const [, layer, expert, part] = EXPERT.exec(name) ?? [];
    if (layer === undefined) {
      tensors[name.replace(".block_sparse_moe.", ".mlp.")] = { dtype, shape, data };
      continue;
    }
    const key = `${layer}.mlp.experts.${DOWN.includes(part) ? "down_proj" : "gate_up_proj"}`;
    const stack = stacks.get(key) ?? { rows: shape[0]!, cols: shape[1]!, parts: [] };
    stacks.set(key, stack);
    if (DOWN.includes(part)) stack.parts[Number(expert)] = data;
    else stack.parts[2 * Number(expert) + (GATE.includes(part) ? 0 : 1)] = data;
  }
  for (const [name, { rows, cols, parts }] of stacks) {
    const isDown = name.endsWith("down_proj");
    const shape = isDown ? [parts.length, rows, cols] : [parts.length / 2, 2 * rows, cols];
    tensors[name] = { dtype: "BF16", shape, data: Buffer.concat(parts) };
  }
  writeFileSync(join(out, "model.safetensors"), encodeSafetensors(tensors));
  return out;
}
