/** Writes Medusa heads as the hub's folders have them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestRng } from "./rng.js";
import { encodeSafetensors } from "./safetensors-writer.js";

export type MedusaTensors = Parameters<typeof encodeSafetensors>[0];

interface MedusaSizes {
  readonly width: number;
  readonly vocab: number;
  readonly numHeads: number;
  /** Residual blocks of a head. */
  readonly numBlocks: number;
}

/** @param values [rows, cols], or [rows] without cols */
export function f32(values: Float32Array, rows: number, cols?: number): MedusaTensors[string] {
  const data = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return { dtype: "F32", shape: cols === undefined ? [rows] : [rows, cols], data };
}

/** Heads with random weights. */
export function randomMedusa({ width, vocab, numHeads, numBlocks }: MedusaSizes, seed = 1): MedusaTensors {
  const rng = new TestRng(seed);
  const values = (count: number, size: number) => Float32Array.from({ length: count }, () => (rng.next() - 0.5) * size);
  const tensors: Record<string, MedusaTensors[string]> = {};
  for (let head = 0; head < numHeads; head++) {
    for (let block = 0; block < numBlocks; block++) {
      tensors[`${head}.${block}.linear.weight`] = f32(values(width * width, 4 / Math.sqrt(width)), width, width);
      tensors[`${head}.${block}.linear.bias`] = f32(values(width, 1), width);
    }
    tensors[`${head}.${numBlocks}.weight`] = f32(values(vocab * width, 4 / Math.sqrt(width)), vocab, width);
  }
  return tensors;
}

/** @param config further or other keys @returns the folder, which is made */
export function writeMedusa(
  folder: string,
  tensors: MedusaTensors,
  config: Readonly<Record<string, unknown>> = {},
): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "medusa_lm_head.safetensors"), encodeSafetensors(tensors));
  // The published heads of Vicuna state two heads, and have five.
  const stated = { base_model_name_or_path: "lmsys/vicuna-7b-v1.3", medusa_num_heads: 2, medusa_num_layers: 1 };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...stated, ...config }));
  return folder;
}
