/** How a stored matrix is multiplied: its weight type, which names the format of its activations too. */
import type { WeightType } from "../../formats/dequantize.js";
import type { ActivationDtype } from "../backend.js";
import type { ActivationFormat } from "../ops.js";
import type { Isa } from "./library/kernels.js";
import { packedActivations } from "./library/packing.js";

/**
 * Instruction sets that multiply bfloat16 faster than f32. FP8 has no kernel with tiles (AMX), and a CPU with tiles
 * multiplies pairs at half the speed of f32.
 */
const BFLOAT_ISAS: Readonly<Partial<Record<WeightType, readonly Isa[]>>> = {
  BF16: ["avx512bf16", "amx"],
  F8_E4M3: ["avx512bf16"],
};

/**
 * The type with which products read a packed matrix that is stored as `type`; both have the same bytes.
 * - Q8_0 and I8 with `int8`: activations of 8 bits;
 * - BF16 and F8_E4M3, on a CPU that multiplies bfloat16 faster, unless activations are to stay f32: bfloat16
 *   activations.
 */
export function productType(type: WeightType, activationDtype: ActivationDtype, isa: Isa): WeightType {
  if ((type === "Q8_0" || type === "I8") && activationDtype === "int8") return `${type}_INT8`;
  if (activationDtype !== "f32" && BFLOAT_ISAS[type]?.includes(isa)) return `${type as "BF16" | "F8_E4M3"}_BF16`;
  return type;
}

/** Format of the activations that a weight of a product type is multiplied with. */
export function activationsOf(type: WeightType, isPacked: boolean): ActivationFormat {
  return isPacked ? packedActivations(type)! : "f32";
}
