/** Totals of a model folder's tensors. */
import type { HfFolder } from "../../formats/hf/folder.js";
import { type StoredTensor, summarizeWeights, type WeightSummary } from "../description/weight-summary.js";

/**
 * Weights of four bits in each 32-bit word of a packed tensor. Elements of other tensors count as weights, scales too.
 */
const WEIGHTS_PER_WORD = 8;
const PACKED_NAME = /\.(?:qweight|weight_packed)$/;
/** Two codes a byte; the scales beside them are no weights, though GGUF files count them into the same bytes. */
const MXFP4_NAME = /_proj_(?:blocks|scales)$/;
/** Beside each matrix stand the scales of its blocks, and one of its own. */
const NVFP4_NAME = /(.*)\.weight(?:_packed|_scale)?$/;

function isNvfp4({ tensors }: HfFolder["files"], name: string): boolean {
  const prefix = NVFP4_NAME.exec(name)?.[1];
  const ofMatrix = ["weight_scale_2", "weight_global_scale"];
  return (
    prefix !== undefined &&
    tensors.get(`${prefix}.weight_scale`)?.dtype === "F8_E4M3" &&
    ofMatrix.some((scale) => tensors.has(`${prefix}.${scale}`))
  );
}

/** Type of words that pack four-bit numbers. */
export const PACKED_LABEL = "4 bit";

export function storedHfTensors({ files }: HfFolder): StoredTensor[] {
  return Array.from(files.tensors.values(), ({ name, dtype, shape, byteLength }) => {
    const numElements = shape.reduce((product, size) => product * size, 1);
    if (dtype === "U8" && MXFP4_NAME.test(name)) {
      return { type: "MXFP4", numParameters: name.endsWith("_blocks") ? 2 * numElements : 0, byteLength };
    }
    if (dtype === (name.endsWith("_scale") ? "F8_E4M3" : "U8") && isNvfp4(files, name)) {
      return { type: "NVFP4", numParameters: dtype === "U8" ? 2 * numElements : 0, byteLength };
    }
    const numParameters = PACKED_NAME.test(name) ? WEIGHTS_PER_WORD * numElements : numElements;
    return { type: PACKED_NAME.test(name) ? PACKED_LABEL : dtype, numParameters, byteLength };
  });
}

export function summarizeHf(folder: HfFolder): WeightSummary {
  const embedding = folder.files.tensors.get(folder.embeddingName);
  return summarizeWeights(storedHfTensors(folder), embedding?.byteLength ?? 0);
}
