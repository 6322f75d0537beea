/** The operations that make weights smaller, as the reference device has them. */
import type { ScaledType } from "../../src/backend/ops.js";
import { BLOCK_LAYOUT, rowByteLength } from "../../src/formats/dequantize.js";
import type { Operands } from "./operands.js";
import type { Work } from "./ops.js";

/**
 * Which levels are best is the kernel's search: here every value is 0, the encoding of all bytes 0.
 * kernels.encode.test.ts measures the search.
 */
export function encodeRows(operands: Operands<"encodeRows">): Work {
  const type = operands.code("type");
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const { numValues } = BLOCK_LAYOUT[type];
  const rowBytes = rowByteLength(type, width);
  if (rowBytes === undefined) return operands.refuse("width", `a multiple of ${numValues}`, width);
  operands.f32("x", numRows * width);
  operands.optionalF32("importance", width);
  operands.optionalF32("factor", width * width);
  const out = operands.bytes("out", 0, numRows * rowBytes);
  operands.requireApart("out", "x");
  operands.requireApart("out", "factor");
  return () => out.fill(0);
}

/** The finite magnitudes of E4M3, by code. */
export const E4M3 = Array.from({ length: 127 }, (_, code) =>
  code < 8 ? code * 2 ** -9 : (1 + (code & 7) / 8) * 2 ** ((code >> 3) - 7),
);

/** The magnitudes of E2M1, by code. */
export const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

const CODE_OF: Readonly<Record<ScaledType, (value: number) => number>> = {
  int4: (value) => 8 + nearestOf(-8, 7, value),
  int8: (value) => nearestOf(-127, 127, value) & 0xff,
  e4m3: (value) => nearestIn(E4M3, value) | (isNegative(value) ? 0x80 : 0),
  e2m1: (value) => nearestIn(E2M1, value) | (isNegative(value) ? 8 : 0),
};

const isNegative = (value: number): boolean => value < 0 || Object.is(value, -0);

/** The code of the magnitude that is nearest; of two that are as near the even one. */
function nearestIn(magnitudes: readonly number[], value: number): number {
  const distance = (code: number) => Math.abs(magnitudes[code]! - Math.abs(value));
  const nearer = (a: number, b: number) => distance(b) < distance(a) || (distance(b) === distance(a) && b % 2 === 0);
  return magnitudes.reduce((a, _, b) => (nearer(a, b) ? b : a), 0);
}

function nearestOf(low: number, high: number, value: number): number {
  const bounded = Math.min(high, Math.max(low, value));
  const floor = Math.floor(bounded);
  const isUp = bounded - floor > 0.5 || (bounded - floor === 0.5 && floor % 2 !== 0);
  return isUp ? floor + 1 : floor;
}

/** One value after another, from the last of a row; sums are in f64. */
export function roundToScales(operands: Operands<"roundToScales">): Work {
  const [numRows, width, group] = [
    operands.integer("numRows"),
    operands.integer("width"),
    operands.integer("group", 1),
  ];
  if (width % group !== 0) return operands.refuse("width", `a multiple of ${group}`, width);
  const codeOf = CODE_OF[operands.code("type")];
  const x = operands.f32("x", numRows * width);
  const scales = operands.f32("scales", numRows * (width / group));
  operands.optionalF32("factor", width * width);
  operands.optionalIndices("order", width, 0, width - 1);
  const out = operands.bytes("out", 0, numRows * width);
  for (const other of ["x", "scales", "factor", "order"] as const) operands.requireApart("out", other);
  return () => {
    for (const [at, value] of x.subarray(0, numRows * width).entries()) {
      const scale = scales[Math.floor(at / group)]!;
      out[at] = codeOf(scale > 0 ? Math.fround(value / scale) : 0);
    }
  };
}

export function addGram(operands: Operands<"addGram">): Work {
  const [numRows, width] = [operands.integer("numRows"), operands.integer("width")];
  const x = operands.f32("x", numRows * width);
  const gram = operands.f32("gram", width * width);
  operands.requireApart("gram", "x");
  return () => {
    for (let i = 0; i < width; i++) {
      for (let j = 0; j <= i; j++) {
        let sum = 0;
        for (let m = 0; m < numRows; m++) sum += x[m * width + i]! * x[m * width + j]!;
        gram[i * width + j]! += sum;
      }
    }
  };
}

export function factorise(operands: Operands<"factorise">): Work {
  const width = operands.integer("width", 1);
  const damping = operands.number("damping");
  if (!(damping > 0)) return operands.refuse("damping", "above 0", damping);
  const gram = operands.f32("gram", width * width);
  return () => {
    const at = (row: number, col: number) => row * width + col;
    let trace = 0;
    for (let i = 0; i < width; i++) trace += gram[at(i, i)]!;
    const lower = Float64Array.from(gram.subarray(0, width * width));
    for (let i = 0; i < width; i++) {
      lower[at(i, i)]! += (damping * trace) / width;
      for (let j = 0; j <= i; j++) {
        for (let k = 0; k < j; k++) lower[at(i, j)]! -= lower[at(i, k)]! * lower[at(j, k)]! * lower[at(k, k)]!;
        if (j < i) lower[at(i, j)]! /= lower[at(j, j)]!;
      }
    }
    gram.set(lower);
  };
}

export function addSquares(operands: Operands<"addSquares">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const x = operands.f32("x", numRows * width);
  const sums = operands.f64("sums", width);
  operands.requireApart("sums", "x");
  return () => {
    for (let m = 0; m < numRows; m++) {
      for (let c = 0; c < width; c++) sums[c]! += x[m * width + c]! ** 2;
    }
  };
}

export function keepLargest(operands: Operands<"keepLargest">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const x = operands.f32("x", numRows * width);
  const largest = operands.f32("largest", width);
  operands.requireApart("largest", "x");
  return () => {
    for (let m = 0; m < numRows; m++) {
      for (let c = 0; c < width; c++) largest[c] = Math.max(largest[c]!, Math.abs(x[m * width + c]!));
    }
  };
}
