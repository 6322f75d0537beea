/** The width of a model's heads. The engine computes models whose values are as wide as their keys. */
import { MillraceError } from "../../core/errors.js";
import type { ServableLayer } from "../description/servable.js";

/** @throws gguf_metadata for value heads of another width */
export function headDimOf(layers: readonly ServableLayer[]): number {
  const { headDim, valueDim } = layers[0]!.mixer;
  if (valueDim === headDim) return headDim;
  throw new MillraceError("gguf_metadata", `expected value heads as wide as key heads (${headDim}), got ${valueDim}`);
}
