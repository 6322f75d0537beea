/** The width of a model's heads. The engine computes models whose values are as wide as their keys. */
import { MillraceError } from "../../core/errors.js";
import type { AttentionMixer } from "../description/model-description.js";

/** @returns the width in the first layer @throws gguf_metadata for value heads of another width than key heads */
export function headDimOf(mixers: readonly AttentionMixer[]): number {
  for (const { headDim, valueDim } of mixers) {
    if (valueDim === headDim) continue;
    throw new MillraceError("gguf_metadata", `expected value heads as wide as key heads (${headDim}), got ${valueDim}`);
  }
  return mixers[0]!.headDim;
}
