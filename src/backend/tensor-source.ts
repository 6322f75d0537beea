/**
 * Interface to a model's tensors, independent of the file format. Tensors have llama.cpp's names
 * (`blk.0.attn_q.weight`).
 */
import { MillraceError } from "../core/errors.js";
import type { WeightType } from "../formats/dequantize.js";

/** Rows [start, start + rows) of the matrix `name` [totalRows, cols]. */
export interface MatrixSpec {
  readonly name: string;
  readonly totalRows: number;
  readonly cols: number;
  readonly start: number;
  readonly rows: number;
  /** The name stands for this many matrices [totalRows / numStacked, cols], one below the other; absent: for one. */
  readonly numStacked?: number;
  /**
   * Keep the stored values, even where another layout or rounding is faster: for embedding tables and for exact
   * products.
   */
  readonly keepsValues?: boolean;
}

/** Rows stored contiguously in a file. */
interface StoredRows {
  readonly type: WeightType;
  readonly path: string;
  readonly byteOffset: number;
}

/** Rows that must be converted, because no file has them in a type that operations can read. */
interface ConvertedRows {
  readonly type: WeightType;
  /** Writes all rows contiguously from the start of `target`, which is zeroed. */
  convert(target: ArrayBuffer): void;
}

export type MatrixRows = StoredRows | ConvertedRows;

export interface MatrixSource {
  /** Throws unless the source has the matrix in that shape. */
  matrix(spec: MatrixSpec): MatrixRows;
}

/** The main model (its layers, embedding and output), or the layers that draft. */
export type ModelPart = "layers" | "drafts";

export interface TensorSource extends MatrixSource {
  has(name: string): boolean;
  /**
   * A small tensor's values, f32 [length], or [count, length] where it has a vector for each expert. Throws unless the
   * source has it in that shape.
   */
  values(name: string, length: number, count?: number): Float32Array;
  /**
   * Throws where the source has other tensors of its part of the language model than these: nothing would compute them,
   * and the answers would be those of another model.
   */
  expectNoOthers(names: ReadonlySet<string>): void;
}

/**
 * One expert's matrix under a name of its own: `blk.0.ffn_up_exps.weight` stacks `blk.0.ffn_up.0.weight`,
 * `blk.0.ffn_up.1.weight`, …
 */
export function unstacked({ numStacked = 1, ...spec }: MatrixSpec): MatrixSpec {
  const totalRows = spec.totalRows / numStacked;
  const name = spec.name.replace("_exps.", `.${Math.floor(spec.start / totalRows)}.`);
  return { ...spec, name, totalRows, start: spec.start % totalRows };
}

/**
 * Types of stacked matrices that are stored one by one: operations read a stack as one, so all of it must have one
 * type.
 */
export class StackTypes {
  readonly #byName = new Map<string, WeightType>();

  /** @param name of the stack @throws tensor_type_unsupported, where a matrix of it had another type */
  check(name: string, found: MatrixRows): MatrixRows {
    const first = this.#byName.get(name) ?? found.type;
    this.#byName.set(name, first);
    if (found.type === first) return found;
    throw new MillraceError(
      "tensor_type_unsupported",
      `expected all experts of ${name} to be of one type, got ${first} and ${found.type}`,
      { hint: "Choose a version of the model whose experts are all stored, or all quantised, in the same way." },
    );
  }
}
