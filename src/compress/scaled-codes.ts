/** Matrices as codes times scales: eight bits with a scale for each row or square, four bits with a scale for each group of a row. */
import { MillraceError } from "../core/errors.js";
import { f16ToNumber } from "../formats/dequantize.js";
import { encodeValues, type PlainType } from "../formats/files/plain-values.js";

const LARGEST = { int8: 127, fp8: 448 } as const;

interface Scaled {
  /** One byte a weight, row after row. */
  readonly codes: Uint8Array;
  readonly scales: Float32Array;
}

/** A scale for each row: its largest magnitude ÷ the type's. */
export function scaledRows(values: Float32Array, cols: number, type: "int8" | "fp8"): Scaled {
  const rows = values.length / cols;
  const scales = new Float32Array(rows);
  const codes = new Uint8Array(values.length);
  for (let row = 0; row < rows; row++) {
    const scale = scaleOf(largestIn(values, row * cols, cols), LARGEST[type]);
    scales[row] = scale;
    encode(values, codes, row * cols, cols, scale, type);
  }
  return { codes, scales };
}

/** FP8 with a scale for each square of `side` rows and columns, or what is left of one at the edges. */
export function scaledSquares(values: Float32Array, cols: number, side: number): Scaled {
  const rows = values.length / cols;
  const perRow = Math.ceil(cols / side);
  const scales = new Float32Array(Math.ceil(rows / side) * perRow);
  const codes = new Uint8Array(values.length);
  scales.forEach((_, index) => {
    const [top, left] = [Math.floor(index / perRow) * side, (index % perRow) * side];
    const bottom = Math.min(rows, top + side);
    const width = Math.min(side, cols - left);
    let largest = 0;
    for (let row = top; row < bottom; row++) largest = Math.max(largest, largestIn(values, row * cols + left, width));
    const scale = scaleOf(largest, LARGEST.fp8);
    scales[index] = scale;
    for (let row = top; row < bottom; row++) encode(values, codes, row * cols + left, width, scale, "fp8");
  });
  return { codes, scales };
}

function largestIn(values: Float32Array, start: number, count: number): number {
  let largest = 0;
  for (let i = start; i < start + count; i++) largest = Math.max(largest, Math.abs(values[i]!));
  return largest;
}

/** In f32; 1 where all values are zeros, or too small for a scale. */
function scaleOf(largest: number, most: number): number {
  const scale = Math.fround(largest / most);
  return scale < 2 ** -126 ? 1 : scale;
}

function encode(
  values: Float32Array,
  codes: Uint8Array,
  start: number,
  count: number,
  scale: number,
  type: "int8" | "fp8",
): void {
  for (let i = start; i < start + count; i++) {
    const value = values[i]! / scale;
    codes[i] = type === "fp8" ? e4m3Of(value) : Math.max(-127, Math.min(127, toInteger(value)));
  }
}

/** Adding 1.5 · 2^52 rounds to the nearest integer, ties to even. */
const toInteger = (value: number): number => value + 6_755_399_441_055_744 - 6_755_399_441_055_744;

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** The code of the nearest E4M3 value, at most 448; ties to even. */
export function e4m3Of(value: number): number {
  float[0] = value;
  const sign = (word[0]! >>> 24) & 0x80;
  const magnitude = word[0]! & 0x7fffffff;
  if (magnitude < 0x3c800000) {
    // Below 2^-6 a code counts steps of 2^-9: adding 2^14 leaves their number in the low bits.
    float[0] = Math.abs(value) + 16_384;
    return sign | (word[0]! - 0x46800000);
  }
  const rounded = (magnitude + 0x7ffff + ((magnitude >>> 20) & 1)) >>> 20;
  return sign | Math.min(rounded - (120 << 3), 0x7e);
}

/** Tried scales are these shares of the one that takes the largest magnitude to 7.5. */
const SHARES = Array.from({ length: 14 }, (_, i) => 0.62 + 0.04 * i);

/**
 * Codes 0 to 15 of values −8 to 7 times a group's scale. Of the tried scales the one with the least error is kept, solved for once more with its codes.
 * @param type of the scales, which the codes are chosen for as they are stored
 * @param importance [cols], of squared errors; undefined: equal
 */
export function scaledGroups(
  values: Float32Array,
  cols: number,
  group: number,
  type: PlainType,
  importance: Float32Array | undefined,
): { readonly codes: Uint8Array; readonly scales: Uint16Array | Float32Array } {
  const numGroups = values.length / group;
  const wanted = new Float32Array(numGroups);
  const weights = new Float64Array(group).fill(1);
  for (let g = 0, start = 0; g < numGroups; g++, start += group) {
    if (importance !== undefined) for (let i = 0; i < group; i++) weights[i] = importance[(start % cols) + i]!;
    wanted[g] = bestScale(values, start, weights);
  }
  const bytes = encodeValues(type, wanted);
  const scales = type === "F32" ? wanted : new Uint16Array(bytes.buffer, bytes.byteOffset, numGroups);
  const stored = valuesOf(type, scales);
  const infinite = stored.indexOf(Number.POSITIVE_INFINITY);
  if (infinite >= 0) {
    throw new MillraceError("model_tensor", `expected scales within float16's range, got ${wanted[infinite]}`, {
      hint: "choose the layout compressed-tensors, whose scales have the model's own type",
    });
  }
  const codes = new Uint8Array(values.length);
  for (let at = 0; at < values.length; at++) {
    const scale = stored[Math.floor(at / group)]!;
    codes[at] = 8 + (scale > 0 ? codeOf(values[at]! / scale) : 0);
  }
  return { codes, scales };
}

const codeOf = (value: number): number => Math.max(-8, Math.min(7, toInteger(value)));

function valuesOf(type: PlainType, stored: Uint16Array | Float32Array): Float32Array {
  if (stored instanceof Float32Array) return stored;
  if (type === "F16") return Float32Array.from(stored, f16ToNumber);
  return new Float32Array(Uint32Array.from(stored, (bits) => bits << 16).buffer);
}

/** @param weights of the squared errors [group] */
function bestScale(values: Float32Array, start: number, weights: Float64Array): number {
  const group = weights.length;
  const largest = largestIn(values, start, group);
  if (largest === 0) return 0;
  let best = 0;
  let leastError = Number.POSITIVE_INFINITY;
  for (const share of SHARES) {
    const scale = (share * largest) / 7.5;
    const inverse = 1 / scale;
    let [dot, square, own] = [0, 0, 0];
    for (let i = 0; i < group; i++) {
      const value = values[start + i]!;
      let code = value * inverse + 6_755_399_441_055_744 - 6_755_399_441_055_744;
      code = code < -8 ? -8 : code > 7 ? 7 : code;
      const weighted = weights[i]! * code;
      dot += weighted * value;
      square += weighted * code;
      own += weights[i]! * value * value;
    }
    // With these codes the error is least at dot ÷ square.
    const error = square > 0 ? own - (dot * dot) / square : own;
    if (error >= leastError) continue;
    leastError = error;
    best = square > 0 ? dot / square : scale;
  }
  return Math.max(best, 0);
}
