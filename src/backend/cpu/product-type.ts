/** How a stored matrix is multiplied: its weight type, which names the format of its activations too. */
import type { WeightType } from "../../formats/dequantize.js";
import type { ActivationDtype } from "../backend.js";
import type { ActivationFormat } from "../ops.js";
import type { Isa } from "./library/kernels.js";
import { packedActivations } from "./library/packing.js";

/** Instruction sets that multiply pairs of bfloat16. */
const BFLOAT_ISAS: readonly Isa[] = ["avx512bf16", "amx"];

/**
 * The type with which products read a packed matrix that is stored as `type`; both have the same bytes.
 * - Q8_0 and I8 with `int8`: activations of 8 bits;
 * - BF16 and F8_E4M3, on a CPU that multiplies bfloat16 pairs, unless activations are to stay f32: bfloat16 activations.
 */
export function productType(type: WeightType, activationDtype: ActivationDtype, isa: Isa): WeightType {
  if ((type === "Q8_0" || type === "I8") && activationDtype === "int8") return `${type}_INT8`;
  const isInBf16 = activationDtype !== "f32" && BFLOAT_ISAS.includes(isa);
  if ((type === "BF16" || type === "F8_E4M3") && isInBf16) return `${type}_BF16`;
  return type;
}

/** Format of the activations that a weight of a product type is multiplied with. */
export function activationsOf(type: WeightType, isPacked: boolean): ActivationFormat {
  return isPacked ? packedActivations(type)! : "f32";
}
