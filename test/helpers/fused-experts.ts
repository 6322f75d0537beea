/**
 * Folders with experts as transformers 5 has them in memory, and writes them without its original format: two tensors
 * for all of a layer.
 */
import { changedFolder } from "./changed-folder.js";

const EXPERT = /^(.*)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(gate_proj|up_proj|down_proj|w1|w2|w3)\.weight$/;
const DOWN: readonly (string | undefined)[] = ["down_proj", "w2"];
const GATE: readonly (string | undefined)[] = ["gate_proj", "w1"];

interface Stack {
  readonly rows: number;
  readonly cols: number;
  /** By expert, and gate before up. */
  readonly parts: Uint8Array[];
}

/** @param source a folder of Mixtral or Qwen3 MoE in BF16 @param out created */
export function writeFusedFolder(source: string, out: string): string {
  return changedFolder(source, out, {
    tensors: (apart) => {
      const stacks = new Map<string, Stack>();
      const others = Object.entries(apart).flatMap(([name, tensor]) => {
        const [, layer, expert, part] = EXPERT.exec(name) ?? [];
        if (layer === undefined) return [[name.replace(".block_sparse_moe.", ".mlp."), tensor] as const];
        const [rows = 0, cols = 0] = tensor.shape;
        const isDown = DOWN.includes(part);
        const key = `${layer}.mlp.experts.${isDown ? "down_proj" : "gate_up_proj"}`;
        const stack: Stack = stacks.get(key) ?? { rows, cols, parts: [] };
        stacks.set(key, stack);
        stack.parts[isDown ? Number(expert) : 2 * Number(expert) + (GATE.includes(part) ? 0 : 1)] = tensor.data!;
        return [];
      });
      const fused = Array.from(stacks, ([name, { rows, cols, parts }]) => {
        const shape = name.endsWith("down_proj") ? [parts.length, rows, cols] : [parts.length / 2, 2 * rows, cols];
        return [name, { dtype: "BF16" as const, shape, data: Buffer.concat(parts) }] as const;
      });
      return Object.fromEntries([...others, ...fused]);
    },
  });
}
