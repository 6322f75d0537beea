/** A model folder's tensors as the loader takes them. F32, F16 and BF16 matrices are mapped where they lie. */
import { MillraceError } from "../../../core/errors.js";
import type { HfFolder } from "../../../formats/huggingface/folder.js";
import { openFile, readExactly } from "../../../formats/read-file.js";
import type { SafetensorsTensor } from "../../../formats/safetensors/types.js";
import { dequantizeRow } from "../../../kernels/dequantize.js";
import type { Device, FileHandle } from "../../../kernels/kernels.js";
import type { MatrixPlace, TensorSource } from "../tensor-source.js";
import type { HfModelConfig } from "./config.js";
import type { HfNames } from "./names.js";

export class HfSource implements TensorSource {
  readonly #files: readonly FileHandle[];
  /** What GGUF files store as tensors and config.json as settings. */
  readonly #computed: ReadonlyMap<string, Float32Array>;

  constructor(
    private readonly folder: HfFolder,
    private readonly model: HfModelConfig,
    private readonly names: HfNames,
    device: Device,
  ) {
    this.#files = folder.files.shards.map((shard) => device.mapFile(shard.path));
    const { all, short, long } = model.ropeFactors;
    const computed = { "rope_freqs.weight": all, "rope_factors_short.weight": short, "rope_factors_long.weight": long };
    this.#computed = new Map(Object.entries(computed).flatMap(([name, values]) => (values ? [[name, values]] : [])));
  }

  has(name: string): boolean {
    if (name === "output.weight" && this.model.isTied) return false;
    return this.#computed.has(name) || this.#find(name) !== undefined;
  }

  matrix(name: string, totalRows: number, cols: number, start: number): MatrixPlace {
    const tensor = this.#tensor(name, [totalRows, cols]);
    const rowBytes = tensor.byteLength / totalRows;
    return {
      memory: this.#files[tensor.shard]!,
      byteOffset: tensor.byteOffset + start * rowBytes,
      type: plainType(tensor),
    };
  }

  values(name: string, length: number): Float32Array {
    const computed = this.#computed.get(name);
    if (computed !== undefined) return computed;
    const tensor = this.#tensor(name, [length]);
    using file = openFile(this.folder.files.shards[tensor.shard]!.path);
    const values = dequantizeRow(plainType(tensor), readExactly(file, tensor.byteOffset, tensor.byteLength), length);
    // Gemma's norms are stored as their distance from one.
    const isGemmaNorm = this.model.config.architecture === "gemma3" && name.endsWith("norm.weight");
    return isGemmaNorm ? values.map((value) => 1 + value) : values;
  }

  #find(name: string): SafetensorsTensor | undefined {
    const stored = this.names.of(name, this.model.config.architecture);
    return stored === undefined ? undefined : this.folder.files.tensors.get(stored);
  }

  #tensor(name: string, shape: readonly number[]): SafetensorsTensor {
    const tensor = this.#find(name);
    const stored = this.names.of(name, this.model.config.architecture) ?? name;
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
