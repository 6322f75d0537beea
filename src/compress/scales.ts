/**
 * Scales of matrices that are stored as codes times scales: one per matrix, per row or square, or per group of a row.
 */
import { MillraceError } from "../core/errors.js";
import { E4M3, f16ToNumber } from "../formats/dequantize.js";
import { encodeValues, type PlainType } from "../formats/files/plain-values.js";

/** Largest magnitudes of the codes. */
const LARGEST = { int8: 127, e4m3: 448, e2m1: 6 } as const;

/** Each row's largest magnitude ÷ the type's. */
export function rowScales(values: Float32Array, cols: number, type: keyof typeof LARGEST): Float32Array {
  return Float32Array.from({ length: values.length / cols }, (_, row) =>
    scaleOf(largestIn(values, row * cols, cols), LARGEST[type]),
  );
}

/** E4M3's single scale. @param largest magnitude that it must represent; absent: that of the values */
export const tensorScale = (values: Float32Array, largest = largestIn(values, 0, values.length)): number =>
  scaleOf(largest, LARGEST.e4m3);

/** E4M3's scale for each square of `side` rows and columns, which divides both. */
export function squareScales(values: Float32Array, cols: number, side: number): Float32Array {
  const perRow = cols / side;
  return Float32Array.from({ length: (values.length / cols / side) * perRow }, (_, index) => {
    const [top, left] = [Math.floor(index / perRow) * side, (index % perRow) * side];
    let largest = 0;
    for (let row = top; row < top + side; row++)
      largest = Math.max(largest, largestIn(values, row * cols + left, side));
    return scaleOf(largest, LARGEST.e4m3);
  });
}

function largestIn(values: Float32Array, start: number, count: number): number {
  let largest = 0;
  for (let i = start; i < start + count; i++) largest = Math.max(largest, Math.abs(values[i]!));
  return largest;
}

/** In f32; 1 if all values are zero, or too small for a scale. */
function scaleOf(largest: number, most: number): number {
  const scale = Math.fround(largest / most);
  return scale < 2 ** -126 ? 1 : scale;
}

/** Tried scales, as shares of the scale that maps the largest magnitude to 7.5. */
const SHARES = Array.from({ length: 14 }, (_, i) => 0.62 + 0.04 * i);

interface GroupScales {
  /** The stored scales: bits of 16-bit types. */
  readonly stored: Uint16Array | Float32Array;
  readonly values: Float32Array;
}

/**
 * Scales of groups whose codes are −8 to 7. The tried scale with the least error is kept, and refined by least squares
 * for its codes.
 * @param type of the scales
 * @param importance [cols], of squared errors; undefined: equal
 */
export function groupScales(
  values: Float32Array,
  cols: number,
  group: number,
  type: PlainType,
  importance: Float32Array | undefined,
): GroupScales {
  const numGroups = values.length / group;
  const wanted = new Float32Array(numGroups);
  const weights = new Float64Array(group).fill(1);
  for (let g = 0, start = 0; g < numGroups; g++, start += group) {
    if (importance !== undefined) for (let i = 0; i < group; i++) weights[i] = importance[(start % cols) + i]!;
    wanted[g] = bestScale(values, start, weights);
  }
  const bytes = encodeValues(type, wanted);
  const stored = type === "F32" ? wanted : new Uint16Array(bytes.buffer, bytes.byteOffset, numGroups);
  const scales = valuesOf(type, stored);
  const infinite = scales.indexOf(Number.POSITIVE_INFINITY);
  if (infinite >= 0) {
    throw new MillraceError("model_tensor", `expected scales within float16's range, got ${wanted[infinite]}`, {
      hint: "choose the layout compressed-tensors, whose scales have the model's own type",
    });
  }
  return { stored, values: scales };
}

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
    // For these codes, dot ÷ square is the scale with the least error.
    const error = square > 0 ? own - (dot * dot) / square : own;
    if (error >= leastError) continue;
    leastError = error;
    best = square > 0 ? dot / square : scale;
  }
  return Math.max(best, 0);
}

/** Columns of a row that share a scale in NVFP4. */
export const FP4_GROUP = 16;

interface Fp4Scales {
  /** E4M3 codes, one per group. */
  readonly stored: Uint8Array;
  /** The F32 divisor of the groups' scales. */
  readonly divisor: number;
  readonly values: Float32Array;
}

/** The codes 1 to 126 are E4M3's numbers above zero, up to 448. */
const LAST_E4M3 = 126;
/** Number of E4M3 steps above the scale that maps a group's largest magnitude to 6: five steps map it below 4. */
const TRIED_STEPS = 5;

/**
 * NVFP4's scales. The divisor gives the largest magnitude the largest E4M3 scale. Each group keeps the tried scale with
 * the least error: codes between 4 and 6 have gaps of 2, so a larger scale is often better.
 * @param largest magnitude for which the divisor must suffice; absent: that of the values
 * @param importance [cols], of squared errors; undefined: equal
 */
export function fp4Scales(
  values: Float32Array,
  cols: number,
  importance: Float32Array | undefined,
  largest = largestIn(values, 0, values.length),
): Fp4Scales {
  const whole = Math.fround((LARGEST.e4m3 * LARGEST.e2m1) / largest);
  // Values that need a larger divisor are practically zero.
  const divisor = whole < 2 ** 126 ? whole : 1;
  const stored = new Uint8Array(values.length / FP4_GROUP);
  const scales = new Float32Array(stored.length);
  for (let g = 0, start = 0; g < stored.length; g++, start += FP4_GROUP) {
    const ofLargest = (largestIn(values, start, FP4_GROUP) / LARGEST.e2m1) * divisor;
    const first = Math.max(1, lastBelow(ofLargest));
    let least = Number.POSITIVE_INFINITY;
    for (let code = first; code <= Math.min(first + TRIED_STEPS, LAST_E4M3); code++) {
      const scale = Math.fround(E4M3[code]! / divisor);
      const error = fp4Error(values, start, scale, importance, start % cols);
      if (error >= least) continue;
      [least, stored[g], scales[g]] = [error, code, scale];
    }
  }
  return { stored, divisor, values: scales };
}

/** The code of the largest E4M3 number that is at most this; 0 if all are larger. */
function lastBelow(value: number): number {
  let [low, high] = [0, LAST_E4M3];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (E4M3[middle]! <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

function fp4Error(
  values: Float32Array,
  start: number,
  scale: number,
  importance: Float32Array | undefined,
  col: number,
): number {
  let error = 0;
  for (let i = 0; i < FP4_GROUP; i++) {
    const magnitude = Math.abs(values[start + i]!);
    const difference = magnitude - scale * nearestE2m1(magnitude / scale);
    error += (importance === undefined ? 1 : importance[col + i]!) * difference * difference;
  }
  return error;
}

/** The nearest of E2M1's magnitudes: 0, 0.5, 1, 1.5, 2, 3, 4 and 6. */
function nearestE2m1(magnitude: number): number {
  if (magnitude < 1.75) return Math.round(2 * magnitude) / 2;
  if (magnitude < 3.5) return magnitude < 2.5 ? 2 : 3;
  return magnitude < 5 ? 4 : 6;
}
