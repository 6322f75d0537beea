/** A GGUF file's tensors: where its matrices lie, and the values of small ones. */
import { closeSync, openSync, readSync } from "node:fs";
import { type MatrixRows, type MatrixSpec, type TensorSource, unstacked } from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import type { GgufFile, GgufTensor } from "../../formats/gguf/types.js";
import type { Architecture } from "../description/servable.js";
import { ggufNameOf } from "./names.js";

export class GgufSource implements TensorSource {
  constructor(
    private readonly gguf: GgufFile,
    private readonly architecture?: Architecture,
  ) {}

  has(name: string): boolean {
    return this.#find(name) !== undefined;
  }

  matrix(spec: MatrixSpec): MatrixRows {
    const { name, totalRows, cols, start, numStacked } = spec;
    // Older files have a tensor for each expert.
    if (numStacked !== undefined && !this.has(name)) return this.matrix(unstacked(spec));
    const shape = numStacked === undefined ? [cols, totalRows] : [cols, totalRows / numStacked, numStacked];
    const tensor = this.#tensor(name, shape);
    const byteOffset = tensor.byteOffset + start * (tensor.byteLength / totalRows);
    return { type: tensor.type, path: this.gguf.shards[tensor.shard]!.path, byteOffset };
  }

  values(name: string, length: number, count?: number): Float32Array {
    const tensor = this.#tensor(name, count === undefined ? [length] : [length, count]);
    const bytes = new Uint8Array(tensor.byteLength);
    const file = openSync(this.gguf.shards[tensor.shard]!.path, "r");
    try {
      const numRead = readSync(file, bytes, 0, bytes.length, tensor.byteOffset);
      if (numRead !== bytes.length) {
        throw new MillraceError("gguf_truncated", `expected ${bytes.length} bytes of ${name}, got ${numRead}`);
      }
    } finally {
      closeSync(file);
    }
    return dequantizeRow(tensor.type, bytes, length * (count ?? 1));
  }

  #find(name: string): GgufTensor | undefined {
    const stored = ggufNameOf(name, this.architecture);
    return stored === undefined ? undefined : this.gguf.tensors.get(stored);
  }

  #tensor(name: string, shape: readonly number[]): GgufTensor {
    const tensor = this.#find(name);
    if (tensor === undefined) {
      throw new MillraceError("gguf_tensor", `expected a tensor ${name} of shape [${shape}], got none`, {
        hint: "The file is incomplete, or its metadata describe another model.",
      });
    }
    const actual = [...tensor.shape];
    while (actual.length > shape.length && actual.at(-1) === 1) actual.pop();
    if (actual.length !== shape.length || actual.some((size, i) => size !== shape[i])) {
      throw new MillraceError("gguf_tensor", `expected ${name} of shape [${shape}], got [${tensor.shape}]`);
    }
    return tensor;
  }
}
