/** Sizes of packed weights and of the activations they are multiplied with, as native/cpu/kernels/packed.h defines them. */
import type { WeightType } from "../../../formats/dequantize.js";
import type { ActivationFormat } from "../../ops.js";
import { loadKernels } from "./load.js";

/** Format of the activations that a packed weight of `type` is multiplied with; undefined where the type has no packed form. */
export const packedActivations = (type: WeightType): ActivationFormat | undefined =>
  loadKernels().packedActivations(type);

/** Bytes of a packed matrix; cols is a multiple of the type's block. undefined where the type has no packed form. */
export const packedByteLength = (type: WeightType, rows: number, cols: number): number | undefined =>
  loadKernels().packedByteLength(type, rows, cols);

/** Bytes from one row of `cols` activations to the next. */
export const activationRowBytes = (format: ActivationFormat, cols: number): number =>
  loadKernels().activationRowBytes(format, cols);
