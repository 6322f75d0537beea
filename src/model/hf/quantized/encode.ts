/**
 * Writes a quantised matrix in a type the kernels read, without loss, where scales are the same over blocks of 32:
 * GGML's blocks if they are exact as F16 (Q4_0, Q5_0 and Q8_0 then hold the very same products), else bytes under F32
 * scales. F32 otherwise. Works on a few rows at a time.
 */
import { E4M3, rowByteLength } from "../../../formats/dequantize.js";
import type { QuantizedMatrix, ScaleGrid } from "./matrix.js";

type EncodedType = "F32" | "Q4_0" | "Q5_0" | "Q8_0" | "F8_E4M3" | "I8";

const BLOCK = 32;
/** Codes in memory at a time. */
const TILE_VALUES = 1 << 22;

/** The smallest type that holds every weight exactly. */
export function encodedType(matrix: QuantizedMatrix): EncodedType {
  const { range, cols, scales } = matrix;
  if (cols % BLOCK !== 0 || !isConstantPerBlock(scales.groupOfCol)) return "F32";
  if (range === "F8_E4M3") return range;
  const [min, max] = range;
  if (min < -128 || max > 127) return "F32";
  if (!scales.values.every((scale) => halfBits(scale) !== undefined)) return "I8";
  if (min >= -8 && max <= 7) return "Q4_0";
  return min >= -16 && max <= 15 ? "Q5_0" : "Q8_0";
}

/** Fills `target` with rows [start, start + numRows). */
export function encodeRows(
  matrix: QuantizedMatrix,
  type: EncodedType,
  start: number,
  numRows: number,
  target: ArrayBuffer,
): void {
  const { cols, rowAlignment } = matrix;
  const perTile = Math.max(1, Math.floor(TILE_VALUES / cols / rowAlignment)) * rowAlignment;
  const rowBytes = rowByteLength(type, cols)!;
  for (let row = start; row < start + numRows; ) {
    // Tiles lie where the format can be cut; the first and the last may be parts of one.
    const tileStart = Math.floor(row / rowAlignment) * rowAlignment;
    const tileRows = Math.min(perTile, matrix.rows - tileStart);
    const end = Math.min(start + numRows, tileStart + tileRows);
    const codes = matrix.readCodes(tileStart, tileRows);
    for (; row < end; row++) {
      const rowCodes = codes.subarray((row - tileStart) * cols, (row - tileStart + 1) * cols);
      const offset = (row - start) * rowBytes;
      if (type === "F32") writeFloats(rowCodes, matrix, row, new Float32Array(target, offset, cols));
      else writeBlocks(rowCodes, matrix.scales, row, type, new DataView(target, offset, rowBytes));
    }
  }
}

function writeFloats(codes: ArrayLike<number>, { scales, range }: QuantizedMatrix, row: number, out: Float32Array) {
  const { values, groupOfCol, groupStride } = scales;
  const isFloat = range === "F8_E4M3";
  const base = Math.floor(row / scales.rowsPerScale) * scales.rowStride;
  for (let col = 0; col < out.length; col++) {
    const code = codes[col]!;
    out[col] = (isFloat ? E4M3[code]! : code) * values[base + groupOfCol[col]! * groupStride]!;
  }
}

function writeBlocks(codes: ArrayLike<number>, scales: ScaleGrid, row: number, type: EncodedType, out: DataView): void {
  const base = Math.floor(row / scales.rowsPerScale) * scales.rowStride;
  const numBytes = rowByteLength(type, BLOCK)!;
  for (let col = 0, at = 0; col < codes.length; col += BLOCK, at += numBytes) {
    const scale = scales.values[base + scales.groupOfCol[col]! * scales.groupStride]!;
    if (type === "F8_E4M3" || type === "I8") {
      out.setFloat32(at, scale, true);
      for (let i = 0; i < BLOCK; i++) out.setUint8(at + 4 + i, codes[col + i]!);
      continue;
    }
    out.setUint16(at, halfBits(scale)!, true);
    if (type === "Q8_0") for (let i = 0; i < BLOCK; i++) out.setInt8(at + 2 + i, codes[col + i]!);
    else writeNibbles(codes, col, type, out, at + 2);
  }
}

/** Value i in the low half of byte i, value i + 16 in the high half; Q5_0 has the fifth bits in a word before them. */
function writeNibbles(codes: ArrayLike<number>, col: number, type: EncodedType, out: DataView, at: number): void {
  const offset = type === "Q4_0" ? 8 : 16;
  let fifthBits = 0;
  const nibblesAt = type === "Q4_0" ? at : at + 4;
  for (let i = 0; i < BLOCK / 2; i++) {
    const low = codes[col + i]! + offset;
    const high = codes[col + i + BLOCK / 2]! + offset;
    out.setUint8(nibblesAt + i, (low & 15) | ((high & 15) << 4));
    fifthBits |= (low >> 4) << i;
    fifthBits |= (high >> 4) << (i + BLOCK / 2);
  }
  if (type === "Q5_0") out.setUint32(at, fifthBits >>> 0, true);
}

function isConstantPerBlock(groups: Int32Array): boolean {
  return groups.every((group, col) => group === groups[col - (col % BLOCK)]);
}

const FLOAT = new Float32Array(1);
const BITS = new Uint32Array(FLOAT.buffer);

/** IEEE half precision of a value that it holds exactly; undefined for any other. */
export function halfBits(value: number): number | undefined {
  FLOAT[0] = value;
  const bits = BITS[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 127;
  const mantissa = bits & 0x7f_ffff;
  if ((bits & 0x7fff_ffff) === 0) return sign;
  if (exponent > 15 || exponent < -24) return undefined;
  if (exponent >= -14) return mantissa & 0x1fff ? undefined : sign | ((exponent + 15) << 10) | (mantissa >>> 13);
  // Below 2^-14 the leading one is written out, and the last place stays 2^-24.
  const shift = -1 - exponent;
  const whole = mantissa | 0x80_0000;
  return whole & ((1 << shift) - 1) ? undefined : sign | (whole >>> shift);
}
