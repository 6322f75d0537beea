/**
 * Sizes of packed weights and of the activations they are multiplied with, as native/cpu/kernels/packed.h defines them.
 */
import type { WeightType } from "../../../formats/dequantize.js";
import type { ActivationFormat } from "../../ops.js";
import { loadKernels } from "./load.js";

/**
 * Format of the activations that a packed weight of `type` is multiplied with; undefined where the type has no packed
 * form.
 */
export const packedActivations = (type: WeightType): ActivationFormat | undefined =>
  loadKernels().packedForm(type)?.activations;

/** Rows that a packed matrix interleaves. Throws where the type has no packed form. */
export const packedGroupRows = (type: WeightType): number => loadKernels().packedForm(type)!.groupRows;

/** Whether a matrix of `cols` columns can be packed. */
export function isPackable(type: WeightType, cols: number): boolean {
  const form = loadKernels().packedForm(type);
  return form !== undefined && cols % form.cellCols === 0;
}

/** Bytes of a packed matrix; cols is a multiple of the type's cell. undefined where the type has no packed form. */
export const packedByteLength = (type: WeightType, rows: number, cols: number): number | undefined =>
  loadKernels().packedByteLength(type, rows, cols);

/** Bytes from one row of `cols` activations to the next. */
export const activationRowBytes = (format: ActivationFormat, cols: number): number =>
  loadKernels().activationRowBytes(format, cols);
