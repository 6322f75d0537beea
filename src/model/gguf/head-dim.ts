/** The width of a model's heads. The engine computes models whose values are as wide as their keys. */
import { MillraceError } from "../../core/errors.js";
import type { AttentionMixer } from "../description/model-description.js";

/** @throws gguf_metadata for value heads of another width */
export function headDimOf({ headDim, valueDim }: AttentionMixer): number {
  if (valueDim === headDim) return headDim;
  throw new MillraceError("gguf_metadata", `expected value heads as wide as key heads (${headDim}), got ${valueDim}`);
}
