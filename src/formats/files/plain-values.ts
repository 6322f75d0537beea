/**
 * Writes f32 values as F32, F16 or BF16, rounded to the nearest, ties to even. The inverse of `dequantizeRow` for these
 * types.
 */

export const PLAIN_TYPES = ["F32", "F16", "BF16"] as const;
export type PlainType = (typeof PLAIN_TYPES)[number];

/** @returns little-endian bytes */
export function encodeValues(type: PlainType, values: Float32Array): Uint8Array {
  if (type === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(values.length);
  const half = type === "F16" ? halfOf : brainOf;
  for (let i = 0; i < words.length; i++) halves[i] = half(words[i]!);
  return new Uint8Array(halves.buffer);
}

/** @param word bits of an f32 @returns bits of a bfloat16; NaN stays NaN */
function brainOf(word: number): number {
  const isNan = (word & 0x7fffffff) > 0x7f800000;
  return isNan ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
}

/** @param word bits of an f32 @returns bits of an IEEE half; beyond its range infinity, NaN stays NaN */
function halfOf(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // 65,520 and more round to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  }
  // Subnormal: a whole number of 2⁻²⁴.
  const exponent = magnitude >>> 23;
  const shift = 126 - exponent;
  if (shift > 24) return sign;
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const kept = mantissa >>> shift;
  const rest = mantissa & ((1 << shift) - 1);
  const middle = 1 << (shift - 1);
  return sign | (kept + (rest > middle || (rest === middle && (kept & 1) === 1) ? 1 : 0));
}
