/** Matrices are packed and verified in pieces of a few rows. */
import type { WeightType } from "../../../formats/dequantize.js";
import { packedByteLength, packedGroupRows } from "../library/packing.js";

/**
 * Bytes packed at a time, which bounds the staging memory. Part of the pack format: checksums are computed over such
 * pieces.
 */
export const PIECE_BYTES = 2 ** 24;

/** Splits a matrix into pieces of whole row groups, each [first row, number of rows]. */
export function* pieces(type: WeightType, rows: number, cols: number): Generator<readonly [number, number]> {
  const groupRows = packedGroupRows(type);
  const groupBytes = packedByteLength(type, groupRows, cols)!;
  const perPiece = Math.max(1, Math.floor(PIECE_BYTES / groupBytes)) * groupRows;
  for (let first = 0; first < rows; first += perPiece) yield [first, Math.min(perPiece, rows - first)];
}
