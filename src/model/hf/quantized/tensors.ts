/** Reads a quantised layer's tensors by name, with their shapes checked. */
import { MillraceError } from "../../../core/errors.js";
import { dequantizeRow } from "../../../formats/dequantize.js";
import { openFile, readExactly, readInto } from "../../../formats/files/read-file.js";
import type { Dtype, SafetensorsFiles, SafetensorsTensor } from "../../../formats/safetensors/types.js";

export class LayerTensors {
  /** @param layer the layer's name, without a dot at its end */
  constructor(
    private readonly files: SafetensorsFiles,
    readonly layer: string,
  ) {}

  find(part: string): SafetensorsTensor | undefined {
    return this.files.tensors.get(`${this.layer}.${part}`);
  }

  /** Throws `model_tensor` unless the tensor is there with one of the types, and in the shape. */
  get(part: string, dtypes: readonly Dtype[], shape: readonly number[]): SafetensorsTensor {
    const tensor = this.find(part);
    const got = tensor === undefined ? "none" : `${tensor.dtype} [${tensor.shape}]`;
    const isEqual = tensor?.shape.length === shape.length && tensor.shape.every((size, i) => size === shape[i]);
    if (tensor !== undefined && dtypes.includes(tensor.dtype) && isEqual) return tensor;
    throw this.refuse(`${this.layer}.${part} as ${dtypes.join(" or ")} [${shape}]`, got);
  }

  refuse(expected: string, got: unknown): MillraceError {
    return new MillraceError("model_tensor", `expected ${expected}, got ${got}`, {
      hint: "The quantised layer is incomplete, or of a layout that millrace does not read.",
    });
  }

  /** All values of a small tensor of finite numbers. */
  floats(tensor: SafetensorsTensor): Float32Array {
    const values = this.#floats(tensor);
    const wrong = values.find((value) => !Number.isFinite(value));
    if (wrong === undefined) return values;
    throw this.refuse(`finite numbers in ${tensor.name}`, wrong);
  }

  #floats(tensor: SafetensorsTensor): Float32Array {
    const bytes = this.bytes(tensor);
    const { dtype, byteLength } = tensor;
    if (dtype === "F32" || dtype === "F16" || dtype === "BF16") {
      return dequantizeRow(dtype, bytes, byteLength / (dtype === "F32" ? 4 : 2));
    }
    // Powers of two (OCP microscaling's scale type).
    if (dtype === "F8_E8M0") return Float32Array.from(bytes, (exponent) => 2 ** (exponent - 127));
    throw this.refuse(`${tensor.name} as floating-point numbers`, dtype);
  }

  /** All values of a small tensor of I32, or of I64 within the range of I32. */
  integers(tensor: SafetensorsTensor): Int32Array {
    const { buffer } = this.bytes(tensor);
    if (tensor.dtype !== "I64") return new Int32Array(buffer);
    const wide = new BigInt64Array(buffer);
    const wrong = wide.find((value) => value !== BigInt.asIntN(32, value));
    if (wrong !== undefined) throw this.refuse(`integers of 32 bits in ${tensor.name}`, wrong);
    return Int32Array.from(wide, Number);
  }

  bytes(tensor: SafetensorsTensor, offset = 0, numBytes = tensor.byteLength): Buffer<ArrayBuffer> {
    using file = openFile(this.files.shards[tensor.shard]!.path);
    return readExactly(file, tensor.byteOffset + offset, numBytes);
  }

  /** Words [start, start + numWords) of each row of a matrix of I32 [numRows, rowWords]. */
  wordColumns(tensor: SafetensorsTensor, start: number, numWords: number): Int32Array {
    const [numRows = 0, rowWords = 0] = tensor.shape;
    const words = new Int32Array(numRows * numWords);
    const target = new Uint8Array(words.buffer);
    using file = openFile(this.files.shards[tensor.shard]!.path);
    if (numWords === rowWords) readInto(file, tensor.byteOffset, target);
    else {
      for (let row = 0; row < numRows; row++) {
        const part = target.subarray(row * numWords * 4, (row + 1) * numWords * 4);
        readInto(file, tensor.byteOffset + (row * rowWords + start) * 4, part);
      }
    }
    return words;
  }
}
