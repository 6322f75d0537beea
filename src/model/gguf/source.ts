/** A GGUF file's tensors: where its matrices lie, and the values of small ones. */
import {
  type MatrixRows,
  type MatrixSpec,
  StackTypes,
  type TensorSource,
  unstacked,
} from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import type { GgufFile, GgufTensor } from "../../formats/gguf/types.js";
import type { Architecture } from "../description/architectures.js";
import type { ServableModel } from "../description/servable.js";
import { shownNames } from "../description/shown-names.js";
import { ggufNameOf } from "./names.js";

/**
 * Towers for images and sound; rank heads, in files whose pooling_type is another; rope frequencies, which the header
 * gives too.
 */
const IGNORED = /^(?:v|a|mm)\.|^cls\.|\.attn_rot_embd\.weight$/;

export class GgufSource implements TensorSource {
  readonly #architecture: Architecture | undefined;
  readonly #stackTypes = new StackTypes();

  /** @param model undefined: the file is not of a model, and its tensors have the loader's names */
  constructor(
    private readonly gguf: GgufFile,
    private readonly model?: Pick<ServableModel, "architecture" | "layers">,
  ) {
    this.#architecture = model?.architecture;
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined;
  }

  matrix(spec: MatrixSpec): MatrixRows {
    const { name, totalRows, cols, start, numStacked } = spec;
    // Older files have a tensor for each expert.
    if (numStacked !== undefined && !this.has(name)) {
      return this.#stackTypes.check(name, this.matrix(unstacked(spec)));
    }
    const shape = numStacked === undefined ? [cols, totalRows] : [cols, totalRows / numStacked, numStacked];
    const tensor = this.#tensor(name, shape);
    const byteOffset = tensor.byteOffset + start * (tensor.byteLength / totalRows);
    return { type: tensor.type, path: this.gguf.shards[tensor.shard]!.path, byteOffset };
  }

  values(name: string, length: number, count?: number): Float32Array {
    const tensor = this.#tensor(name, count === undefined ? [length] : [length, count]);
    using file = openFile(this.gguf.shards[tensor.shard]!.path);
    const bytes = readExactly(file, tensor.byteOffset, tensor.byteLength);
    return dequantizeRow(tensor.type, bytes, length * (count ?? 1));
  }

  expectNoOthers(names: ReadonlySet<string>): void {
    const stored = new Set(Array.from(names, (name) => ggufNameOf(name, this.#architecture)));
    const others = [...this.gguf.tensors.keys()].filter(
      (name) => !stored.has(name) && !IGNORED.test(name) && !this.#isDraft(name),
    );
    if (others.length === 0) return;
    throw new MillraceError("gguf_tensor", `expected tensors that are computed, got ${shownNames(others)} too`, {
      hint: "The file is of a variant that is not served: without these tensors its answers would be others.",
    });
  }

  /** Whether the tensor is of a block behind the layers, which drafts later tokens and is not computed. */
  #isDraft(name: string): boolean {
    if (this.model === undefined) return false;
    const { architecture, layers } = this.model;
    const index = Number(/^blk\.(\d+)\./.exec(name)?.[1]);
    const numBlocks = this.gguf.metadata.number(`${architecture}.block_count`) ?? layers.length;
    return index >= layers.length && index < numBlocks;
  }

  #find(name: string): GgufTensor | undefined {
    const stored = ggufNameOf(name, this.#architecture);
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
