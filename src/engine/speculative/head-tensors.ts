/** The tensors of heads in safetensors files, under names of our own. */
import type { MatrixRows, MatrixSpec, TensorSource } from "../../backend/tensor-source.js";
import { dequantizeRow, rowByteLength } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import type { SafetensorsFiles, SafetensorsTensor } from "../../formats/safetensors/types.js";
import { shownNames } from "../../model/description/shown-names.js";
import { expectShape, plainType, tensorError } from "../../model/hf/plain-tensor.js";

export class HeadTensors implements TensorSource {
  /**
   * @param storedOf the stored name of one of ours
   * @param others tensors that nothing computes and that are no mistake
   */
  constructor(
    protected readonly files: SafetensorsFiles,
    private readonly storedOf: (name: string) => string,
    private readonly others?: RegExp,
  ) {}

  has(name: string): boolean {
    return this.files.tensors.has(this.storedOf(name));
  }

  matrix({ name, totalRows, cols, start }: MatrixSpec): MatrixRows {
    const tensor = this.tensor(this.storedOf(name), [totalRows, cols]);
    const type = plainType(tensor);
    const byteOffset = tensor.byteOffset + start * rowByteLength(type, cols)!;
    return { type, path: this.files.shards[tensor.shard]!.path, byteOffset };
  }

  values(name: string, length: number): Float32Array {
    const tensor = this.tensor(this.storedOf(name), [length]);
    using file = openFile(this.files.shards[tensor.shard]!.path);
    return dequantizeRow(plainType(tensor), readExactly(file, tensor.byteOffset, tensor.byteLength), length);
  }

  expectNoOthers(names: ReadonlySet<string>): void {
    const known = new Set(Array.from(names, this.storedOf));
    const others = [...this.files.tensors.keys()].filter((name) => !known.has(name) && !this.others?.test(name));
    if (others.length === 0) return;
    throw tensorError(`expected tensors that are computed, got ${shownNames(others)} too`);
  }

  /** @throws model_tensor where there is none, or one of another shape */
  protected tensor(stored: string, shape: readonly number[]): SafetensorsTensor {
    return expectShape(this.files.tensors.get(stored), stored, shape);
  }
}

/** Bytes of all tensors. */
export const numTensorBytes = ({ tensors }: SafetensorsFiles): number =>
  [...tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
