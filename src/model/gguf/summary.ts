/** Totals of a GGUF file's tensors. */
import type { GgufFile } from "../../formats/gguf/types.js";
import { type StoredTensor, summarizeWeights, type WeightSummary } from "../description/weight-summary.js";

export function storedGgufTensors({ tensors }: GgufFile): StoredTensor[] {
  return Array.from(tensors.values(), ({ type, shape, byteLength }) => ({
    type,
    numParameters: shape.reduce((product, size) => product * size, 1),
    byteLength,
  }));
}

export function summarizeGguf(gguf: GgufFile): WeightSummary {
  return summarizeWeights(storedGgufTensors(gguf), gguf.tensors.get("token_embd.weight")?.byteLength ?? 0);
}
