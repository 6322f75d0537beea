/** Where a model's tensors come from, whatever the file format; names are llama.cpp's (`blk.0.attn_q.weight`). */
import type { WeightType } from "../formats/dequantize.js";

/** Rows [start, start + rows) of the matrix `name` [totalRows, cols]. */
export interface MatrixSpec {
  readonly name: string;
  readonly totalRows: number;
  readonly cols: number;
  readonly start: number;
  readonly rows: number;
  /** Rows are looked up in it, or its products are exact: it keeps the values that it is stored with, whatever is faster. */
  readonly keepsValues?: boolean;
}

/** Rows that lie in a file, one after another. */
interface StoredRows {
  readonly type: WeightType;
  readonly path: string;
  readonly byteOffset: number;
}

/** Rows that no file has in a type that operations read. */
interface ConvertedRows {
  readonly type: WeightType;
  /** Writes all of the rows, one after another, to the beginning of `target`, which has zeros so far. */
  convert(target: ArrayBuffer): void;
}

export type MatrixRows = StoredRows | ConvertedRows;

export interface MatrixSource {
  /** Throws unless the matrix is there in that shape. */
  matrix(spec: MatrixSpec): MatrixRows;
}

export interface TensorSource extends MatrixSource {
  has(name: string): boolean;
  /** A small tensor's values, f32 [length]. Throws unless it is there in that length. */
  values(name: string, length: number): Float32Array;
}
