/**
 * A model folder's tensors: where its F32, F16 and BF16 matrices lie, and how quantised ones are converted without
 * loss.
 */

import {
  type MatrixRows,
  type MatrixSpec,
  type ModelPart,
  StackTypes,
  type TensorSource,
  unstacked,
} from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { openFile, readExactly, readInto } from "../../formats/files/read-file.js";
import type { HfFolder } from "../../formats/hf/folder.js";
import { readSafetensors } from "../../formats/safetensors/read.js";
import type { SafetensorsFiles, SafetensorsTensor } from "../../formats/safetensors/types.js";
import { joinedNameOf, latentRowsOf } from "../description/joined-latents.js";
import type { ServableModel } from "../description/servable.js";
import { shownNames } from "../description/shown-names.js";
import { type HfNames, isNegativeLog, isOffsetNorm, isOneRow, isTaps, isTransposed } from "./names.js";
import { expectShape, plainType, transposeInto } from "./plain-tensor.js";
import { encodedType, encodeRows } from "./quantized/encode.js";
import { FP4_SCALES, hasFp4Codes, nvfp4Rows } from "./quantized/nvfp4.js";
import { CheckpointQuantization, LAYER_PARTS, QUANTIZED_PARTS } from "./quantized/open.js";
import { LayerTensors } from "./quantized/tensors.js";
import { gathered, numRowsAround, type RowPart, rowPartsOf, runsOf } from "./row-parts.js";
import type { ServableFolder } from "./servable.js";
import { StackedExperts } from "./stacked-experts.js";

/**
 * Rope frequencies, which config.json gives too; numbers of positions and texts, which transformers keeps as tensors;
 * scales of quantised keys and values.
 */
const IGNORED =
  /\.rotary_emb\.inv_freq$|\.attn(?:ention)?\.(?:masked_)?bias$|(?:^|\.)embeddings\.(?:position_ids|token_type_ids)$|\.self_attn\.[kqv]_scale$/;

/** A linear layer behind the pooling. */
const DENSE_NAME = /^dense_(\d+)\.(weight|bias)$/;

export class HfSource implements TensorSource {
  readonly #model: ServableModel;
  readonly #quantization: CheckpointQuantization;
  readonly #headFiles = new Map<string, SafetensorsFiles>();
  readonly #stackTypes = new StackTypes();
  /** Tensors of GGUF files that folders have as settings in config.json. */
  readonly #computed: ReadonlyMap<string, Float32Array>;

  constructor(
    private readonly folder: HfFolder,
    { model, ropeFactors }: ServableFolder,
    private readonly names: HfNames,
    /** Folders of the linear layers behind the pooling, in order. */
    private readonly headFolders: readonly string[] = [],
    private readonly part: ModelPart = "layers",
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
    const { name, totalRows, cols, start, rows, numStacked } = spec;
    if (joinedNameOf(name) !== undefined) {
      return latentRowsOf(spec, this.#model.layers, (joined) => this.matrix(joined));
    }
    if (numStacked !== undefined) {
      const stack = this.#stack(name);
      if (stack !== undefined) return stack.matrix(spec);
      const tensor = this.#find(name);
      const ofOne = unstacked(spec);
      if (tensor === undefined && this.#nameOf(ofOne.name) !== undefined) {
        return this.#stackTypes.check(name, this.matrix(ofOne));
      }
      const isOneMatrix = tensor?.shape.length === 2;
      return this.#rows(spec, isOneMatrix ? [totalRows, cols] : [numStacked, totalRows / numStacked, cols]);
    }
    const parts = rowPartsOf(name, this.#model);
    if (parts !== undefined) return this.#rowsOfParts(spec, parts);
    const layer = this.#quantizedLayer(name);
    if (layer !== undefined) {
      const tensors = this.#layer(layer);
      if (hasFp4Codes(tensors)) return nvfp4Rows(tensors, spec);
      const matrix = this.#quantization.open(tensors, [totalRows, cols]);
      const type = encodedType(matrix);
      return { type, convert: (target) => encodeRows(matrix, type, start, rows, target) };
    }
    if (isTransposed(name, this.#model.architecture)) return this.#transposedRows(spec);
    return this.#rows(spec, [totalRows, cols]);
  }

  /** Rows of a tensor that has this shape. */
  #rows({ name, totalRows, start }: MatrixSpec, shape: readonly number[]): MatrixRows {
    const tensor = this.#tensor(name, shape);
    const byteOffset = tensor.byteOffset + start * (tensor.byteLength / totalRows);
    return { type: plainType(tensor), path: this.#filesOf(name).shards[tensor.shard]!.path, byteOffset };
  }

  /** Rows of a matrix that is stored with a row for each of its columns. */
  #transposedRows({ name, totalRows, cols, start, rows }: MatrixSpec): MatrixRows {
    const tensor = this.#tensor(name, [cols, totalRows]);
    const { path } = this.#filesOf(name).shards[tensor.shard]!;
    const type = plainType(tensor);
    const convert = (target: ArrayBuffer) => {
      using file = openFile(path);
      const bytes = readExactly(file, tensor.byteOffset, tensor.byteLength);
      transposeInto(target, bytes, { type, totalRows, cols, start, rows });
    };
    return { type, convert };
  }

  /** Rows of a matrix that is stored as some of the rows of a larger one. */
  #rowsOfParts({ name, cols, start, rows }: MatrixSpec, parts: readonly RowPart[]): MatrixRows {
    const tensor = this.#tensor(name, [numRowsAround(parts), cols]);
    const { path } = this.#filesOf(name).shards[tensor.shard]!;
    const rowBytes = tensor.byteLength / tensor.shape[0]!;
    const convert = (target: ArrayBuffer) => {
      using file = openFile(path);
      for (const { first, count, at } of runsOf(parts, start, rows)) {
        const bytes = new Uint8Array(target, (at - start) * rowBytes, count * rowBytes);
        readInto(file, tensor.byteOffset + first * rowBytes, bytes);
      }
    };
    return { type: plainType(tensor), convert };
  }

  /** Undefined: the tensor is not of experts, or each expert has its own. */
  #stack(name: string): StackedExperts | undefined {
    const part = this.names.stackedOf(name, this.#model.architecture);
    return part === undefined ? undefined : new StackedExperts(new LayerTensors(this.folder.files, part.experts), part);
  }

  /** The layer's name where its weight is stored otherwise than as plain numbers. */
  #quantizedLayer(name: string): string | undefined {
    const stored = this.names.of(name, this.#model.architecture);
    if (stored === undefined || !stored.endsWith(".weight")) return undefined;
    const layer = stored.slice(0, -".weight".length);
    return this.#isQuantized(layer) ? layer : undefined;
  }

  #layer(layer: string): LayerTensors {
    return new LayerTensors(this.folder.files, layer);
  }

  #isQuantized(layer: string): boolean {
    const { tensors } = this.folder.files;
    const isPacked = [...QUANTIZED_PARTS, "weight_scale_2"].some((part) => tensors.has(`${layer}.${part}`));
    const dtype = tensors.get(`${layer}.weight`)?.dtype;
    return isPacked || dtype === "F8_E4M3" || dtype === "I8";
  }

  values(name: string, length: number, count?: number): Float32Array {
    const stack = this.#stack(name);
    if (stack !== undefined) return stack.biases(length, count ?? 1);
    const computed = this.#computed.get(name);
    if (computed !== undefined) return computed;
    const parts = rowPartsOf(name, this.#model);
    if (parts !== undefined) return gathered(this.#storedValues(name, [numRowsAround(parts)]), parts, length);
    const flat = isOneRow(name, this.#model.architecture) ? [1, length] : [length * (count ?? 1)];
    const values = this.#storedValues(name, isTaps(name) ? [count ?? 1, 1, length] : flat);
    if (isNegativeLog(name)) return values.map((value) => -Math.exp(value));
    return isOffsetNorm(name, this.#model.architecture) ? values.map((value) => 1 + value) : values;
  }

  #storedValues(name: string, shape: readonly number[]): Float32Array {
    const tensor = this.#tensor(name, shape);
    using file = openFile(this.#filesOf(name).shards[tensor.shard]!.path);
    const bytes = readExactly(file, tensor.byteOffset, tensor.byteLength);
    return dequantizeRow(
      plainType(tensor),
      bytes,
      shape.reduce((product, size) => product * size, 1),
    );
  }

  expectNoOthers(names: ReadonlySet<string>): void {
    const { isTied } = this.#model;
    const stored = new Set([...names].flatMap((name) => this.#storedNames(name)));
    const others = [...this.folder.files.tensors.values()].filter((tensor) => {
      const { name } = tensor;
      if (stored.has(name) || !this.#isOfPart(name) || IGNORED.test(name)) return false;
      const [, layer, part] = /^(.*)\.(\w+)$/.exec(name) ?? [];
      if (layer === undefined) return true;
      if (isTied && layer.endsWith("lm_head")) return false;
      // Quantised forms have parts of their own beside the weight.
      if (part !== "bias") {
        const isPart = LAYER_PARTS.has(part!) || (FP4_SCALES.has(part!) && hasFp4Codes(this.#layer(layer)));
        return !(isPart && stored.has(`${layer}.weight`) && this.#isQuantized(layer));
      }
      return !this.#isZero(tensor);
    });
    if (others.length === 0) return;
    const got = shownNames(others.map(({ name }) => name));
    throw new MillraceError("model_tensor", `expected tensors that are computed, got ${got} too`, {
      hint: "The folder is of a variant that is not served: without these tensors its answers would be others.",
    });
  }

  #storedNames(name: string): readonly string[] {
    const stack = this.#stack(name);
    if (stack !== undefined) return name.endsWith(".bias") ? [stack.biasName] : stack.matrixNames;
    const stored = this.names.of(name, this.#model.architecture);
    return stored === undefined ? [] : [stored];
  }

  /** Bytes of the tensors of its part of the model. */
  numBytes(): number {
    const own = [...this.folder.files.tensors.values()].filter(({ name }) => this.#isOfPart(name));
    return own.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  #isOfPart(stored: string): boolean {
    const { architecture, draftLayers = [] } = this.#model;
    const isDraft = this.names.isOfDraft(stored, architecture, draftLayers.length);
    return this.part === "drafts" ? isDraft : this.names.isOfModel(stored, architecture) && !isDraft;
  }

  /** Some quantisers give every layer a bias. */
  #isZero(tensor: SafetensorsTensor): boolean {
    using file = openFile(this.folder.files.shards[tensor.shard]!.path);
    return readExactly(file, tensor.byteOffset, tensor.byteLength).every((byte) => byte === 0);
  }

  /** The files that a tensor is in: the model's, or those of a layer behind the pooling. */
  #filesOf(name: string): SafetensorsFiles {
    const folder = this.headFolders[Number(DENSE_NAME.exec(name)?.[1] ?? Number.NaN) - 2];
    if (folder === undefined) return this.folder.files;
    const files = this.#headFiles.get(folder) ?? readSafetensors(folder);
    this.#headFiles.set(folder, files);
    return files;
  }

  #nameOf(name: string): string | undefined {
    const [, , kind] = DENSE_NAME.exec(name) ?? [];
    return kind === undefined ? this.names.of(name, this.#model.architecture) : `linear.${kind}`;
  }

  #find(name: string): SafetensorsTensor | undefined {
    const stored = this.#nameOf(name);
    return stored === undefined ? undefined : this.#filesOf(name).tensors.get(stored);
  }

  #tensor(name: string, shape: readonly number[]): SafetensorsTensor {
    return expectShape(this.#find(name), this.#nameOf(name) ?? name, shape);
  }
}
