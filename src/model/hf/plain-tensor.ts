/** Checks of tensors in safetensors files: their shapes, and types that operations read as they are. */
import { MillraceError } from "../../core/errors.js";
import type { PlainType } from "../../formats/files/plain-values.js";
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
export function plainType({ name, dtype }: SafetensorsTensor): PlainType {
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

/** Rows [start, start + rows) of a matrix [totalRows, cols] from its transpose. */
interface TransposedRows {
  readonly type: PlainType;
  readonly totalRows: number;
  readonly cols: number;
  readonly start: number;
  readonly rows: number;
}

/** @param stored bytes of the whole matrix, column by column */
export function transposeInto(target: ArrayBuffer, stored: Uint8Array<ArrayBuffer>, wanted: TransposedRows): void {
  const { type, totalRows, cols, start, rows } = wanted;
  const Words = type === "F32" ? Uint32Array : Uint16Array;
  const from = new Words(stored.buffer, stored.byteOffset, totalRows * cols);
  const to = new Words(target);
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) to[row * cols + col] = from[col * totalRows + start + row]!;
  }
}
