import { GRID_BLOCKS, type GridType } from "../../formats/grid-blocks.js";

/** Summary of a model's weights for people, /v1/models and plans. */
export interface WeightSummary {
  /** The type most weight bytes have. */
  readonly weightType: string;
  readonly numParameters: number;
  readonly weightBytes: number;
  /** Bytes of the weights in memory. */
  readonly memoryBytes: number;
  /** How many of these the embedding table takes. */
  readonly embeddingBytes: number;
}

export interface StoredTensor {
  readonly type: string;
  readonly numParameters: number;
  readonly byteLength: number;
}

/** In memory, where types with codebooks have a code for each value. */
export function memoryBytesOf({ type, byteLength }: StoredTensor): number {
  if (!Object.hasOwn(GRID_BLOCKS, type)) return byteLength;
  const block = GRID_BLOCKS[type as GridType];
  return (byteLength / block.byteLength) * block.packedBytes;
}

export function summarizeWeights(tensors: Iterable<StoredTensor>, embeddingBytes: number): WeightSummary {
  const bytesByType = new Map<string, number>();
  let numParameters = 0;
  let weightBytes = 0;
  let memoryBytes = 0;
  for (const tensor of tensors) {
    bytesByType.set(tensor.type, (bytesByType.get(tensor.type) ?? 0) + tensor.byteLength);
    numParameters += tensor.numParameters;
    weightBytes += tensor.byteLength;
    memoryBytes += memoryBytesOf(tensor);
  }
  return { weightType: largest(bytesByType), numParameters, weightBytes, memoryBytes, embeddingBytes };
}

/** The key with the largest number; F32 for none. */
function largest(bytesByType: ReadonlyMap<string, number>): string {
  return [...bytesByType].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["F32", 0])[0];
}
