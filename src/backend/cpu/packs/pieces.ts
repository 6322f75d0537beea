/** Matrices are packed, and looked at again, a few rows at a time. */
import type { WeightType } from "../../../formats/dequantize.js";
import { packedByteLength } from "../library/packing.js";

/** Packed at a time: what lies in memory beside the pack itself. Part of the format of packs: their checksums are of such pieces. */
export const PIECE_BYTES = 2 ** 24;
export const ROWS_PER_GROUP = 8;

/** Cuts rows into pieces of whole groups: [first row, number of rows]. */
export function* pieces(type: WeightType, rows: number, cols: number): Generator<readonly [number, number]> {
  const groupBytes = packedByteLength(type, ROWS_PER_GROUP, cols)!;
  const perPiece = Math.max(1, Math.floor(PIECE_BYTES / groupBytes)) * ROWS_PER_GROUP;
  for (let first = 0; first < rows; first += perPiece) yield [first, Math.min(perPiece, rows - first)];
}
