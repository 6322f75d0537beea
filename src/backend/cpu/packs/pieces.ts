/** Matrices are packed and verified in pieces of a few rows. */
import type { WeightType } from "../../../formats/dequantize.js";
import { packedByteLength } from "../library/packing.js";

/** Bytes packed at a time, which bounds the staging memory. Part of the pack format: checksums are computed over such pieces. */
export const PIECE_BYTES = 2 ** 24;
export const ROWS_PER_GROUP = 8;

/** Splits a matrix into pieces of whole row groups, each [first row, number of rows]. */
export function* pieces(type: WeightType, rows: number, cols: number): Generator<readonly [number, number]> {
  const groupBytes = packedByteLength(type, ROWS_PER_GROUP, cols)!;
  const perPiece = Math.max(1, Math.floor(PIECE_BYTES / groupBytes)) * ROWS_PER_GROUP;
  for (let first = 0; first < rows; first += perPiece) yield [first, Math.min(perPiece, rows - first)];
}
