/** Model folders of test/fixtures/hf with the layer for multi-token prediction of test/fixtures/mtp. */
import { readFileSync } from "node:fs";
import { readSafetensors } from "../../src/formats/safetensors/read.js";
import { changedFolder } from "./changed-folder.js";
import { fixture } from "./fixtures.js";
import type { encodeSafetensors } from "./safetensors-writer.js";

type Tensors = Parameters<typeof encodeSafetensors>[0];

export const MTP_MODELS = ["qwen35", "qwen35_vision", "qwen35moe", "qwen3next", "glm4_moe"] as const;
export type MtpModel = (typeof MTP_MODELS)[number];

/** @param change of the layer's own tensors @returns `out`, which is created */
export function writeMtpFolder(name: MtpModel, out: string, change: (own: Tensors) => Tensors = (own) => own): string {
  const { tensors: own, shards } = readSafetensors(fixture(`mtp/${name}`));
  const stored = Array.from(own.values(), ({ name: key, dtype, shape, shard, byteOffset, byteLength }) => {
    const data = readFileSync(shards[shard]!.path).subarray(byteOffset, byteOffset + byteLength);
    return [key, { dtype, shape, data }] as const;
  });
  return changedFolder(fixture(`hf/${name}`), out, {
    settings: name === "glm4_moe" ? { num_nextn_predict_layers: 1 } : {},
    tensors: (tensors) => ({ ...tensors, ...change(Object.fromEntries(stored)) }),
  });
}
