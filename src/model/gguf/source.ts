/** A GGUF file's tensors: where its matrices lie, and the values of small ones. */
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
import { scaleNvfp4 } from "../../formats/fp4-blocks.js";
import type { GgufFile, GgufTensor } from "../../formats/gguf/types.js";
import type { Architecture } from "../description/architectures.js";
import { joinedNameOf, latentRowsOf } from "../description/joined-latents.js";
import type { ServableModel } from "../description/servable.js";
import { shownNames } from "../description/shown-names.js";
import { ggufNameOf } from "./names.js";

/**
 * Towers for images and sound; rank heads, in files whose pooling_type is another; rope frequencies, which the header
 * gives too.
 */
const IGNORED = /^(?:v|a|mm)\.|^cls\.|\.attn_rot_embd\.weight$/;

/** Vectors of a Mamba-2 that files have in two dimensions: of one value for each head, and by group. */
const FLATTENED = /\.(?:ssm_a|ssm_d|ssm_norm\.weight)$/;

const flattened = (shape: readonly number[]): number[] => [shape.reduce((product, size) => product * size, 1)];

export class GgufSource implements TensorSource {
  readonly #architecture: Architecture | undefined;
  readonly #stackTypes = new StackTypes();

  /** @param model undefined: the file is not of a model, and its tensors have the loader's names */
  constructor(
    private readonly gguf: GgufFile,
    private readonly model?: Pick<ServableModel, "architecture" | "layers">,
    private readonly part: ModelPart = "layers",
  ) {
    this.#architecture = model?.architecture;
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined;
  }

  matrix(spec: MatrixSpec): MatrixRows {
    const { name, totalRows, cols, start, rows, numStacked } = spec;
    if (this.#isJoined(name)) return latentRowsOf(spec, this.model!.layers, (joined) => this.matrix(joined));
    // Older files have a tensor for each expert.
    if (numStacked !== undefined && !this.has(name)) {
      return this.#stackTypes.check(name, this.matrix(unstacked(spec)));
    }
    const shape = numStacked === undefined ? [cols, totalRows] : [cols, totalRows / numStacked, numStacked];
    const tensor = this.#tensor(name, shape);
    const rowBytes = tensor.byteLength / totalRows;
    const { path } = this.gguf.shards[tensor.shard]!;
    const byteOffset = tensor.byteOffset + start * rowBytes;
    const scales = this.#scalesOf(tensor, numStacked ?? 1);
    if (scales === undefined) return { type: tensor.type, path, byteOffset };
    const convert = (target: ArrayBuffer) => {
      using file = openFile(path);
      readInto(file, byteOffset, new Uint8Array(target, target.byteLength - rows * rowBytes));
      const ownRows = totalRows / scales.length;
      scaleNvfp4(
        target,
        Float32Array.from({ length: rows }, (_, row) => scales[Math.floor((start + row) / ownRows)]!),
      );
    };
    return { type: "NVFP4_SCALED", convert };
  }

  /** Of whole matrices of NVFP4, one for each of a stack; undefined: there are none. */
  #scalesOf({ name, type }: GgufTensor, count: number): Float32Array | undefined {
    const scaleName = name.replace(/\.weight$/, ".scale");
    if (type !== "NVFP4" || !this.gguf.tensors.has(scaleName)) return undefined;
    const scales = this.values(scaleName, count);
    const wrong = scales.find((scale) => !Number.isFinite(scale));
    if (wrong === undefined) return scales;
    throw new MillraceError("gguf_tensor", `expected finite numbers in ${scaleName}, got ${wrong}`);
  }

  values(name: string, length: number, count?: number): Float32Array {
    const tensor = this.#tensor(name, count === undefined ? [length] : [length, count]);
    using file = openFile(this.gguf.shards[tensor.shard]!.path);
    const bytes = readExactly(file, tensor.byteOffset, tensor.byteLength);
    return dequantizeRow(tensor.type, bytes, length * (count ?? 1));
  }

  expectNoOthers(names: ReadonlySet<string>): void {
    const stored = new Set(Array.from(names, (name) => this.#nameOf(name)));
    const others = [...this.gguf.tensors.keys()].filter(
      (name) =>
        !stored.has(name) &&
        !IGNORED.test(name) &&
        this.#isDraft(name) === (this.part === "drafts") &&
        !this.#isScale(name, stored),
    );
    if (others.length === 0) return;
    throw new MillraceError("gguf_tensor", `expected tensors that are computed, got ${shownNames(others)} too`, {
      hint: "The file is of a variant that is not served: without these tensors its answers would be others.",
    });
  }

  /** Whether the tensor scales a matrix of NVFP4 that is read, or its inputs, which others quantise by it. */
  #isScale(name: string, stored: ReadonlySet<string | undefined>): boolean {
    const [, matrix] = /^(.*)\.(?:input_)?scale$/.exec(name) ?? [];
    if (matrix === undefined || !stored.has(`${matrix}.weight`)) return false;
    return this.gguf.tensors.get(`${matrix}.weight`)?.type === "NVFP4";
  }

  /** Bytes of the tensors of its part of the model. */
  numBytes(): number {
    const own = [...this.gguf.tensors.values()].filter(({ name }) => this.#isDraft(name) === (this.part === "drafts"));
    return own.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Whether the tensor is of a block behind the layers, which drafts later tokens. */
  #isDraft(name: string): boolean {
    if (this.model === undefined) return false;
    const { architecture, layers } = this.model;
    const index = Number(/^blk\.(\d+)\./.exec(name)?.[1]);
    const numBlocks = this.gguf.metadata.number(`${architecture}.block_count`) ?? layers.length;
    return index >= layers.length && index < numBlocks;
  }

  /** Other programs than llama.cpp give LFM2's last norm the name that it has elsewhere. */
  #nameOf(name: string): string | undefined {
    const stored = ggufNameOf(name, this.#architecture);
    if (this.#isJoined(name)) return joinedNameOf(name);
    const isThere = stored === undefined || this.gguf.tensors.has(stored);
    return !isThere && name === "output_norm.weight" ? name : stored;
  }

  /** Older files have the matrices of latent keys and values in one. */
  #isJoined(name: string): boolean {
    const joined = joinedNameOf(name);
    return joined !== undefined && !this.gguf.tensors.has(name) && this.gguf.tensors.has(joined);
  }

  #find(name: string): GgufTensor | undefined {
    const stored = this.#nameOf(name);
    return stored === undefined ? undefined : this.gguf.tensors.get(stored);
  }

  #tensor(name: string, shape: readonly number[]): GgufTensor {
    const tensor = this.#find(name);
    if (tensor === undefined) {
      throw new MillraceError("gguf_tensor", `expected a tensor ${name} of shape [${shape}], got none`, {
        hint: "The file is incomplete, or its metadata describe another model.",
      });
    }
    const actual = FLATTENED.test(name) && shape.length === 1 ? flattened(tensor.shape) : [...tensor.shape];
    while (actual.length > shape.length && actual.at(-1) === 1) actual.pop();
    // A matrix of one row is stored as a vector.
    while (actual.length < shape.length) actual.push(1);
    if (actual.length !== shape.length || actual.some((size, i) => size !== shape[i])) {
      throw new MillraceError("gguf_tensor", `expected ${name} of shape [${shape}], got [${tensor.shape}]`);
    }
    return tensor;
  }
}
