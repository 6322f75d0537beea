/** A model folder's tensors: where its F32, F16 and BF16 matrices lie, and how quantised ones are converted without loss. */

import { type MatrixRows, type MatrixSpec, type TensorSource, unstacked } from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import type { HfFolder } from "../../formats/hf/folder.js";
import type { SafetensorsTensor } from "../../formats/safetensors/types.js";
import type { ServableModel } from "../description/servable.js";
import { type HfNames, hasOffsetNorms } from "./names.js";
import { encodedType, encodeRows } from "./quantized/encode.js";
import { CheckpointQuantization, QUANTIZED_PARTS } from "./quantized/open.js";
import { LayerTensors } from "./quantized/tensors.js";
import type { ServableFolder } from "./servable.js";
import { StackedExperts } from "./stacked-experts.js";

export class HfSource implements TensorSource {
  readonly #model: ServableModel;
  readonly #quantization: CheckpointQuantization;
  /** What GGUF files store as tensors and config.json as settings. */
  readonly #computed: ReadonlyMap<string, Float32Array>;

  constructor(
    private readonly folder: HfFolder,
    { model, ropeFactors }: ServableFolder,
    private readonly names: HfNames,
  ) {
    this.#quantization = new CheckpointQuantization(folder.config);
    this.#model = model;
    const { all, short, long } = ropeFactors;
    const computed = { "rope_freqs.weight": all, "rope_factors_short.weight": short, "rope_factors_long.weight": long };
    this.#computed = new Map(Object.entries(computed).flatMap(([name, values]) => (values ? [[name, values]] : [])));
  }

  has(name: string): boolean {
    if (name === "output.weight" && this.#model.isTied) return false;
    const stack = this.#stack(name);
    if (stack !== undefined) return name.endsWith(".bias") ? stack.hasBiases : stack.hasMatrices;
    return this.#computed.has(name) || this.#find(name) !== undefined || this.#quantizedLayer(name) !== undefined;
  }

  matrix(spec: MatrixSpec): MatrixRows {
    if (spec.numStacked !== undefined) return this.#stack(spec.name)?.matrix(spec) ?? this.matrix(unstacked(spec));
    const { name, totalRows, cols, start, rows } = spec;
    const layer = this.#quantizedLayer(name);
    if (layer !== undefined) {
      const matrix = this.#quantization.open(new LayerTensors(this.folder.files, layer), [totalRows, cols]);
      const type = encodedType(matrix);
      return { type, convert: (target) => encodeRows(matrix, type, start, rows, target) };
    }
    const tensor = this.#tensor(name, [totalRows, cols]);
    const byteOffset = tensor.byteOffset + start * (tensor.byteLength / totalRows);
    return { type: plainType(tensor), path: this.folder.files.shards[tensor.shard]!.path, byteOffset };
  }

  /** Undefined: the folder's experts have tensors of their own. */
  #stack(name: string): StackedExperts | undefined {
    const part = this.names.stackedOf(name, this.#model.architecture);
    return part === undefined ? undefined : new StackedExperts(new LayerTensors(this.folder.files, part.experts), part);
  }

  /** The layer's name where its weight is stored otherwise than as plain numbers. */
  #quantizedLayer(name: string): string | undefined {
    const stored = this.names.of(name, this.#model.architecture);
    if (stored === undefined || !stored.endsWith(".weight")) return undefined;
    const layer = stored.slice(0, -".weight".length);
    const { tensors } = this.folder.files;
    const isPacked = QUANTIZED_PARTS.some((part) => tensors.has(`${layer}.${part}`));
    const dtype = tensors.get(stored)?.dtype;
    return isPacked || dtype === "F8_E4M3" || dtype === "I8" ? layer : undefined;
  }

  values(name: string, length: number, count?: number): Float32Array {
    const stack = this.#stack(name);
    if (stack !== undefined) return stack.biases(length, count ?? 1);
    const computed = this.#computed.get(name);
    if (computed !== undefined) return computed;
    const tensor = this.#tensor(name, [length]);
    using file = openFile(this.folder.files.shards[tensor.shard]!.path);
    const values = dequantizeRow(plainType(tensor), readExactly(file, tensor.byteOffset, tensor.byteLength), length);
    const isOffset = hasOffsetNorms(this.#model.architecture) && name.endsWith("norm.weight");
    return isOffset ? values.map((value) => 1 + value) : values;
  }

  #find(name: string): SafetensorsTensor | undefined {
    const stored = this.names.of(name, this.#model.architecture);
    return stored === undefined ? undefined : this.folder.files.tensors.get(stored);
  }

  #tensor(name: string, shape: readonly number[]): SafetensorsTensor {
    const tensor = this.#find(name);
    const stored = this.names.of(name, this.#model.architecture) ?? name;
    if (tensor === undefined) throw tensorError(`expected a tensor ${stored} of shape [${shape}], got none`);
    if (tensor.shape.length !== shape.length || tensor.shape.some((size, i) => size !== shape[i])) {
      throw tensorError(`expected ${stored} of shape [${shape}], got [${tensor.shape}]`);
    }
    return tensor;
  }
}

function plainType({ name, dtype }: SafetensorsTensor): "F32" | "F16" | "BF16" {
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return dtype;
  throw new MillraceError("tensor_type_unsupported", `expected ${name} of type F32, F16 or BF16, got ${dtype}`, {
    hint: "The weights are quantised in a way millrace does not read; choose another version of the model.",
  });
}

function tensorError(message: string): MillraceError {
  return new MillraceError("model_tensor", message, {
    hint: "The folder is incomplete, or config.json describes another model; download it again.",
  });
}
