/** Totals of a GGUF file's tensors. */
import type { GgufFile, GgufTensor } from "../../formats/gguf/types.js";
import { GRID_BLOCKS, type GridType } from "../../formats/grid-blocks.js";
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

/** Bytes of the weights in memory: those of types with codebooks have a code for each value there. */
export function packedGgufBytes({ tensors }: GgufFile): number {
  return Array.from(tensors.values(), packedTensorBytes).reduce((sum, numBytes) => sum + numBytes, 0);
}

function packedTensorBytes({ type, byteLength }: GgufTensor): number {
  if (!Object.hasOwn(GRID_BLOCKS, type)) return byteLength;
  const block = GRID_BLOCKS[type as GridType];
  return (byteLength / block.byteLength) * block.packedBytes;
}
