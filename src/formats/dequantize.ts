/**
 * Turns stored tensor rows into f32, type by type, in plain TypeScript: the definition of every weight type. Layouts
 * are GGML's (github.com/ggml-org/ggml, ggml-common.h). Each product is rounded to f32 where GGML rounds it, so results
 * are equal to the bit. Fast paths live in native/cpu/kernels; they are checked against this file.
 */
import { MillraceError } from "../core/errors.js";
import type { TensorType } from "./gguf/types.js";
import { GRID_BLOCKS, type GridType } from "./grid-blocks.js";

interface BlockLayout {
  /** Values in one block; a row is a whole number of blocks. */
  readonly numValues: number;
  /** Bytes of one block. */
  readonly byteLength: number;
}

interface BlockCodec extends BlockLayout {
  /** Writes the values of the block at `bytes[at]` to `out[to]` and on. */
  readonly decode: (bytes: DataView, at: number, out: Float32Array, to: number) => void;
}

/**
 * GGML's types, two of our own for safetensors weights (32 values of one byte each under an F32 scale), NVFP4 with its
 * matrix' F32 scale in front of each block, Q8_0 and I8 that, packed, are multiplied with int8 activations, BF16 that
 * is multiplied with bfloat16 ones, and F8_E4M3 that, packed, is.
 */
export type WeightType = TensorType | "F8_E4M3" | "I8" | "NVFP4_SCALED" | RoundedProduct;
type RoundedProduct = `${"Q8_0" | "I8"}_INT8` | `${"F8_E4M3" | "BF16"}_BF16`;

const CODECS: Readonly<Record<WeightType, BlockCodec>> = {
  F32: { numValues: 1, byteLength: 4, decode: decodeF32 },
  F16: { numValues: 1, byteLength: 2, decode: decodeF16 },
  BF16: { numValues: 1, byteLength: 2, decode: decodeBf16 },
  Q8_0: { numValues: 32, byteLength: 34, decode: decodeQ8_0 },
  Q4_0: { numValues: 32, byteLength: 18, decode: decodeQ4_0 },
  Q4_1: { numValues: 32, byteLength: 20, decode: decodeQ4_1 },
  Q5_0: { numValues: 32, byteLength: 22, decode: decodeQ5_0 },
  Q5_1: { numValues: 32, byteLength: 24, decode: decodeQ5_1 },
  Q2_K: { numValues: 256, byteLength: 84, decode: decodeQ2K },
  Q3_K: { numValues: 256, byteLength: 110, decode: decodeQ3K },
  Q4_K: { numValues: 256, byteLength: 144, decode: decodeQ4K },
  Q5_K: { numValues: 256, byteLength: 176, decode: decodeQ5K },
  Q6_K: { numValues: 256, byteLength: 210, decode: decodeQ6K },
  IQ4_NL: { numValues: 32, byteLength: 18, decode: decodeIq4Nl },
  IQ4_XS: { numValues: 256, byteLength: 136, decode: decodeIq4Xs },
  MXFP4: { numValues: 32, byteLength: 17, decode: decodeMxfp4 },
  NVFP4: { numValues: 64, byteLength: 36, decode: decodeNvfp4 },
  NVFP4_SCALED: { numValues: 64, byteLength: 40, decode: decodeScaledNvfp4 },
  IQ2_XXS: gridCodec("IQ2_XXS"),
  IQ2_XS: gridCodec("IQ2_XS"),
  IQ2_S: gridCodec("IQ2_S"),
  IQ3_XXS: gridCodec("IQ3_XXS"),
  IQ3_S: gridCodec("IQ3_S"),
  IQ1_S: gridCodec("IQ1_S"),
  IQ1_M: gridCodec("IQ1_M"),
  TQ1_0: gridCodec("TQ1_0"),
  TQ2_0: gridCodec("TQ2_0"),
  F8_E4M3: { numValues: 32, byteLength: 36, decode: decodeF8 },
  I8: { numValues: 32, byteLength: 36, decode: decodeI8 },
  Q8_0_INT8: { numValues: 32, byteLength: 34, decode: decodeQ8_0 },
  F8_E4M3_BF16: { numValues: 32, byteLength: 36, decode: decodeF8 },
  I8_INT8: { numValues: 32, byteLength: 36, decode: decodeI8 },
  BF16_BF16: { numValues: 1, byteLength: 2, decode: decodeBf16 },
};

export const WEIGHT_TYPES = Object.keys(CODECS) as readonly WeightType[];

export const BLOCK_LAYOUT: Readonly<Record<WeightType, BlockLayout>> = CODECS;

/** Bytes of a row of `cols` values, or undefined when `cols` is no whole number of blocks. */
export function rowByteLength(type: WeightType, cols: number): number | undefined {
  const { numValues, byteLength } = CODECS[type];
  return cols % numValues === 0 ? (cols / numValues) * byteLength : undefined;
}

/** The first `cols` values stored in `bytes`. */
export function dequantizeRow(type: WeightType, bytes: Uint8Array, cols: number): Float32Array {
  const codec = CODECS[type];
  const needed = rowByteLength(type, cols);
  if (needed === undefined || needed > bytes.byteLength) {
    throw new MillraceError(
      "kernels_argument",
      `expected a ${type} row of ${cols} values to fill blocks of ${codec.numValues} values in ${needed ?? "whole"} bytes, got ${bytes.byteLength} bytes`,
      { hint: "pass the bytes of one whole row" },
    );
  }
  if (type === "F16" || type === "BF16") return widened(type, bytes, cols);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(cols);
  for (let block = 0; block * codec.numValues < cols; block++) {
    codec.decode(view, block * codec.byteLength, out, block * codec.numValues);
  }
  return out;
}

/** Every value of two bytes, by its bits: whole models are read so. */
const widenedValues = new Map<"F16" | "BF16", Float32Array>();

function widened(type: "F16" | "BF16", bytes: Uint8Array, cols: number): Float32Array {
  const table = widenedValues.get(type) ?? tableOf(type);
  widenedValues.set(type, table);
  const isAligned = bytes.byteOffset % 2 === 0;
  const words = isAligned
    ? new Uint16Array(bytes.buffer, bytes.byteOffset, cols)
    : new Uint16Array(bytes.slice(0, 2 * cols).buffer);
  const out = new Float32Array(cols);
  for (let i = 0; i < cols; i++) out[i] = table[words[i]!]!;
  return out;
}

function tableOf(type: "F16" | "BF16"): Float32Array {
  const view = new DataView(new ArrayBuffer(2 << 16));
  const out = new Float32Array(1 << 16);
  for (let bits = 0; bits < 1 << 16; bits++) {
    view.setUint16(2 * bits, bits, true);
    CODECS[type].decode(view, 2 * bits, out, bits);
  }
  return out;
}

/** IEEE 754 binary16 → number, exact. */
export function f16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1024 + fraction) * F16_UNITS[exponent]!;
}

/** Value of one unit of the fraction, by biased exponent. */
const F16_UNITS = Float64Array.from({ length: 32 }, (_, exponent) => 2 ** (exponent - 25));

/** Number → IEEE 754 binary16, round to nearest even; NaN becomes the quiet NaN. */
export function numberToF16(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // The first magnitude that rounds to 2^16 instead of 65504, the largest finite f16.
  if (magnitude >= 65520) return sign | 0x7c00;
  // Subnormals share the exponent of the smallest normal number.
  const exponent = Math.max(exponentOf(magnitude), -14);
  const units = roundHalfEven(magnitude / 2 ** (exponent - 10));
  // units has the hidden bit (1024) for normal numbers; adding instead of or-ing lets a carry raise the exponent.
  return sign | (units + (exponent + 14) * 1024);
}

const F64_BITS = new DataView(new ArrayBuffer(8));

/** floor(log2(magnitude)), exactly, for normal numbers. */
function exponentOf(magnitude: number): number {
  F64_BITS.setFloat64(0, magnitude);
  return ((F64_BITS.getUint16(0) >> 4) & 0x7ff) - 1023;
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

function half(bytes: DataView, at: number): number {
  return f16ToNumber(bytes.getUint16(at, true));
}

function decodeF32(bytes: DataView, at: number, out: Float32Array, to: number): void {
  out[to] = bytes.getFloat32(at, true);
}

function decodeF16(bytes: DataView, at: number, out: Float32Array, to: number): void {
  out[to] = half(bytes, at);
}

/** bfloat16 is the upper half of an f32. */
function decodeBf16(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const widened = new DataView(new ArrayBuffer(4));
  widened.setUint16(2, bytes.getUint16(at, true), true);
  out[to] = widened.getFloat32(0, true);
}

/** f16 d, i8[32]. */
function decodeQ8_0(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  for (let i = 0; i < 32; i++) out[to + i] = d * bytes.getInt8(at + 2 + i);
}

/** E4M3 by its bits (OCP 8-bit floating point, the variant without infinities). */
export const E4M3 = Float32Array.from({ length: 256 }, (_, bits) => {
  const sign = bits & 0x80 ? -1 : 1;
  const exponent = (bits >> 3) & 15;
  const mantissa = bits & 7;
  if ((bits & 0x7f) === 0x7f) return Number.NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10));
});

/** f32 d, e4m3[32]. */
function decodeF8(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = bytes.getFloat32(at, true);
  for (let i = 0; i < 32; i++) out[to + i] = d * E4M3[bytes.getUint8(at + 4 + i)]!;
}

/** f32 d, i8[32]. */
function decodeI8(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = bytes.getFloat32(at, true);
  for (let i = 0; i < 32; i++) out[to + i] = d * bytes.getInt8(at + 4 + i);
}

/** Value i of 32 packed so that byte j holds value j in its low and value j + 16 in its high nibble. */
function nibble32(bytes: DataView, at: number, i: number): number {
  return i < 16 ? bytes.getUint8(at + i) & 15 : bytes.getUint8(at + i - 16) >> 4;
}

/** Bit i of a little-endian u32, as the fifth bit of a value. */
function fifthBit(bytes: DataView, at: number, i: number): number {
  return ((bytes.getUint32(at, true) >>> i) & 1) << 4;
}

/** f16 d, 16 bytes of nibbles; (q − 8)·d. */
function decodeQ4_0(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  for (let i = 0; i < 32; i++) out[to + i] = d * (nibble32(bytes, at + 2, i) - 8);
}

/** f16 d, f16 m, 16 bytes of nibbles; q·d + m. */
function decodeQ4_1(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  const m = half(bytes, at + 2);
  for (let i = 0; i < 32; i++) out[to + i] = Math.fround(d * nibble32(bytes, at + 4, i)) + m;
}

/** f16 d, u32 fifth bits, 16 bytes of nibbles; (q − 16)·d. */
function decodeQ5_0(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  for (let i = 0; i < 32; i++) {
    out[to + i] = d * ((nibble32(bytes, at + 6, i) | fifthBit(bytes, at + 2, i)) - 16);
  }
}

/** f16 d, f16 m, u32 fifth bits, 16 bytes of nibbles; q·d + m. */
function decodeQ5_1(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  const m = half(bytes, at + 2);
  for (let i = 0; i < 32; i++) {
    out[to + i] = Math.fround(d * (nibble32(bytes, at + 8, i) | fifthBit(bytes, at + 4, i))) + m;
  }
}

/** The fixed non-linear grid of the IQ4 types. */
const IQ4_GRID = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const;

/** f16 d, 16 bytes of nibbles that index the grid. */
function decodeIq4Nl(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  for (let i = 0; i < 32; i++) out[to + i] = d * IQ4_GRID[nibble32(bytes, at + 2, i)]!;
}

/**
 * f16 d, u16 with the upper two bits of eight 6-bit scales, 4 bytes with their lower nibbles, then per 32 values 16
 * bytes of nibbles that index the grid; d·(scale − 32)·grid.
 */
function decodeIq4Xs(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at);
  const scalesHigh = bytes.getUint16(at + 2, true);
  for (let group = 0; group < 8; group++) {
    const low = (bytes.getUint8(at + 4 + (group >> 1)) >> (4 * (group & 1))) & 15;
    const high = (scalesHigh >> (2 * group)) & 3;
    const step = Math.fround(d * ((low | (high << 4)) - 32));
    for (let i = 0; i < 32; i++) {
      out[to + 32 * group + i] = step * IQ4_GRID[nibble32(bytes, at + 8 + 16 * group, i)]!;
    }
  }
}

/** 256 values that are multiples of f16 d. */
function gridCodec(type: GridType): BlockCodec {
  const { byteLength, unit, scaleBits, multiples } = GRID_BLOCKS[type];
  const decode = (bytes: DataView, at: number, out: Float32Array, to: number) => {
    const step = f16ToNumber(scaleBits(bytes, at)) * unit;
    multiples(bytes, at, out, to);
    for (let i = to; i < to + 256; i++) out[i]! *= step;
  };
  return { numValues: 256, byteLength, decode };
}

/**
 * Twice the values of E2M1, the 4-bit float of the OCP microscaling formats (MX v1.0, §5.3.3); GGML has no negative
 * zero.
 */
export const E2M1_GRID = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const;

/**
 * u8 exponent (E8M0), 16 bytes of nibbles that index the grid; grid·2^(e − 128), the halved scale of a doubled grid.
 */
function decodeMxfp4(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = 2 ** (bytes.getUint8(at) - 128);
  for (let i = 0; i < 32; i++) out[to + i] = d * E2M1_GRID[nibble32(bytes, at + 1, i)]!;
}

/**
 * Four scales (E4M3 without a sign; a NaN counts as zero), one for each 16 values, 32 bytes of nibbles that index the
 * grid: byte j of eight has values j and j + 8; grid·scale / 2.
 */
function decodeNvfp4(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 64; i++) {
    const scale = E4M3[bytes.getUint8(at + (i >> 4)) & 127]!;
    const byte = bytes.getUint8(at + 4 + 8 * (i >> 4) + (i & 7));
    out[to + i] = (Number.isNaN(scale) ? 0 : scale / 2) * E2M1_GRID[(i & 8) === 0 ? byte & 15 : byte >> 4]!;
  }
}

/** f32 d, a block of NVFP4; d·value. */
function decodeScaledNvfp4(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = bytes.getFloat32(at, true);
  decodeNvfp4(bytes, at + 4, out, to);
  for (let i = to; i < to + 64; i++) out[i]! *= d;
}

/**
 * The 6-bit scale and minimum of group g (of 8) of a Q4_K or Q5_K block: 12 bytes, the last four groups in split
 * fields.
 */
function scaleAndMin(bytes: DataView, at: number, g: number): { readonly scale: number; readonly min: number } {
  const byte = (i: number): number => bytes.getUint8(at + i);
  if (g < 4) return { scale: byte(g) & 63, min: byte(g + 4) & 63 };
  return {
    scale: (byte(g + 4) & 15) | ((byte(g - 4) >> 6) << 4),
    min: (byte(g + 4) >> 4) | ((byte(g) >> 6) << 4),
  };
}

/** Nibble i (of 256) of a k-quant: every 32 bytes hold 32 values in their low and the next 32 in their high nibbles. */
function nibble256(bytes: DataView, at: number, i: number): number {
  const byte = bytes.getUint8(at + (i >> 6) * 32 + (i & 31));
  return (i & 32) === 0 ? byte & 15 : byte >> 4;
}

/**
 * Bit pair i (of 256) of a k-quant: each half of 128 values has 32 bytes, whose lowest pairs are its first 32 values,
 * and so on.
 */
function pair256(bytes: DataView, at: number, i: number): number {
  return (bytes.getUint8(at + (i >> 7) * 32 + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3;
}

/**
 * 16 bytes of 4-bit scales (low) and minima (high), 64 bytes of bit pairs, f16 d, f16 dmin; d·scale·q − dmin·min by
 * groups of 16.
 */
function decodeQ2K(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at + 80);
  const dmin = half(bytes, at + 82);
  for (let i = 0; i < 256; i++) {
    const scaleAndMin = bytes.getUint8(at + (i >> 4));
    const step = Math.fround(d * (scaleAndMin & 15));
    const base = Math.fround(dmin * (scaleAndMin >> 4));
    out[to + i] = Math.fround(step * pair256(bytes, at + 16, i)) - base;
  }
}

/**
 * 32 bytes of third bits (bit g of byte l belongs to value l of group g of 32), 64 bytes of bit pairs, 12 bytes of
 * 6-bit scales, f16 d; d·(scale − 32)·(q − 4) by groups of 16. Scale j has its low four bits in nibble j / 8 of byte j
 * % 8, its upper two at 2·(j / 4) of byte 8 + j % 4.
 */
function decodeQ3K(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at + 108);
  for (let i = 0; i < 256; i++) {
    const j = i >> 4;
    const low = (bytes.getUint8(at + 96 + (j & 7)) >> (4 * (j >> 3))) & 15;
    const high = (bytes.getUint8(at + 104 + (j & 3)) >> (2 * (j >> 2))) & 3;
    const step = Math.fround(d * ((low | (high << 4)) - 32));
    const third = (bytes.getUint8(at + (i & 31)) >> (i >> 5)) & 1;
    out[to + i] = step * ((pair256(bytes, at + 32, i) | (third << 2)) - 4);
  }
}

/** f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles; d·scale·q − dmin·min by groups of 32. */
function decodeQ4K(bytes: DataView, at: number, out: Float32Array, to: number): void {
  decodeScaledGroups(bytes, at, out, to, (i) => nibble256(bytes, at + 16, i));
}

/** As Q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte l belongs to value l of group g. */
function decodeQ5K(bytes: DataView, at: number, out: Float32Array, to: number): void {
  decodeScaledGroups(bytes, at, out, to, (i) => {
    const fifth = (bytes.getUint8(at + 16 + (i & 31)) >> (i >> 5)) & 1;
    return nibble256(bytes, at + 48, i) | (fifth << 4);
  });
}

function decodeScaledGroups(
  bytes: DataView,
  at: number,
  out: Float32Array,
  to: number,
  quantum: (i: number) => number,
): void {
  const d = half(bytes, at);
  const dmin = half(bytes, at + 2);
  for (let i = 0; i < 256; i++) {
    const { scale, min } = scaleAndMin(bytes, at + 4, i >> 5);
    out[to + i] = Math.fround(Math.fround(d * scale) * quantum(i)) - Math.fround(dmin * min);
  }
}

/** 128 bytes low nibbles, 64 bytes of bit pairs, i8[16] scales, f16 d; d·scale·(q − 32) by groups of 16. */
function decodeQ6K(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const d = half(bytes, at + 208);
  for (let i = 0; i < 256; i++) {
    const upper = i >> 7;
    const quarter = (i >> 5) & 3;
    const lane = i & 31;
    const lowByte = bytes.getUint8(at + upper * 64 + (quarter & 1) * 32 + lane);
    const low = quarter < 2 ? lowByte & 15 : lowByte >> 4;
    const high = (bytes.getUint8(at + 128 + upper * 32 + lane) >> (2 * quarter)) & 3;
    const scale = bytes.getInt8(at + 192 + (i >> 4));
    out[to + i] = Math.fround(d * scale) * ((low | (high << 4)) - 32);
  }
}
