/** Checks of tensors in safetensors files: their shapes, and types that operations read as they are. */
import { MillraceError } from "../../core/errors.js";
import type { SafetensorsTensor } from "../../formats/safetensors/types.js";

/** Throws model_tensor where there is no such tensor, or one of another shape. @param stored its name in the file */
export function expectShape(
  tensor: SafetensorsTensor | undefined,
  stored: string,
  shape: readonly number[],
): SafetensorsTensor {
  if (tensor === undefined) throw tensorError(`expected a tensor ${stored} of shape [${shape}], got none`);
  if (tensor.shape.length !== shape.length || tensor.shape.some((size, i) => size !== shape[i])) {
    throw tensorError(`expected ${stored} of shape [${shape}], got [${tensor.shape}]`);
  }
  return tensor;
}

/** Throws tensor_type_unsupported for other types. */
export function plainType({ name, dtype }: SafetensorsTensor): "F32" | "F16" | "BF16" {
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return dtype;
  throw new MillraceError("tensor_type_unsupported", `expected ${name} of type F32, F16 or BF16, got ${dtype}`, {
    hint: "The weights are quantised in a way millrace does not read; choose another version of the model.",
  });
}

export function tensorError(message: string): MillraceError {
  return new MillraceError("model_tensor", message, {
    hint: "The folder is incomplete, or config.json describes another model; download it again.",
  });
}
