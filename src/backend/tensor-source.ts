/** Where a model's tensors come from, whatever the file format; names are llama.cpp's (`blk.0.attn_q.weight`). */
import type { WeightType } from "../formats/dequantize.js";
import type { FileHandle } from "./cpu/kernels.js";
import type { BufferHandle } from "./handles.js";

/** Rows of a matrix as `createWeight` takes them. */
export interface MatrixPlace {
  readonly memory: FileHandle | BufferHandle;
  readonly byteOffset: number;
  readonly type: WeightType;
  /** `memory` is a buffer made for this matrix alone; whoever lays the matrix out otherwise releases it. */
  readonly isOwned?: boolean;
}

/** Rows [start, start + rows) of the matrix `name` [totalRows, cols]. */
export interface MatrixSpec {
  readonly name: string;
  readonly totalRows: number;
  readonly cols: number;
  readonly start: number;
  readonly rows: number;
}

export interface TensorSource {
  has(name: string): boolean;
  /** Rows [start, start + rows) of the matrix `name` [totalRows, cols]. Throws unless the matrix is there in that shape. */
  matrix(name: string, totalRows: number, cols: number, start: number, rows: number): MatrixPlace;
  /** A small tensor's values, f32 [length]. Throws unless it is there in that length. */
  values(name: string, length: number): Float32Array;
}
