/** The part of the table of operations that makes weights smaller; see ops.ts. */

const NUM_ROWS = { kind: "integer", note: "M" } as const;

/**
 * With a factor, columns are rounded from the last to the first, and each value first receives the errors of the
 * columns already rounded (GPTQ).
 */
const FACTOR = {
  kind: "f32",
  shape: "[width, width]",
  access: "reads",
  optional: true,
  note: "of `factorise`: x[m, c] is rounded as x[m, c] + Σ (x[m, k] − its decoded value) · factor[k, c] over k > c",
} as const;

export const WEIGHT_OPS = {
  encodeRows: {
    computes:
      "Writes rows of x to out in the blocks of `type`, so that Σ importance[c] · (x[m, c] − its decoded value)² is small: scales and minima are " +
      "searched. Without a factor, bytes do not depend on the instruction set; they never depend on the number of threads.",
    operands: {
      out: { kind: "bytes", shape: "[*]", access: "writes", note: "M rows of the type's blocks" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads", note: "finite" },
      importance: {
        kind: "f32",
        shape: "[width]",
        access: "reads",
        optional: true,
        note: "above 0; without it all are 1",
      },
      factor: FACTOR,
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "a multiple of the type's block" },
      type: { kind: "code", of: "BlockType" },
    },
  },
  roundToScales: {
    computes: "out[m, c] is the code of `type` whose level is nearest to x[m, c] ÷ scales[m, c ÷ group].",
    operands: {
      out: { kind: "bytes", shape: "[*]", access: "writes", note: "[numRows, width]" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads", note: "finite" },
      scales: { kind: "f32", shape: "[*]", access: "reads", note: "[numRows, width ÷ group], 0 or above" },
      factor: FACTOR,
      order: {
        kind: "i32",
        shape: "[width]",
        access: "reads",
        optional: true,
        note: "with factor only: a permutation of the columns, whose last one is rounded first; factor has its rows and columns in this order",
      },
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "a multiple of group" },
      group: { kind: "integer", note: "at least 1" },
      type: { kind: "code", of: "ScaledType" },
    },
  },
  addSquares: {
    computes: "sums[c] += Σ x[m, c]² over the rows, one after another.",
    operands: {
      sums: { kind: "f64", shape: "[width]", access: "reads and writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
    },
  },
  keepLargest: {
    computes: "largest[c] becomes the largest of itself and |x[m, c]| over the rows.",
    operands: {
      largest: { kind: "f32", shape: "[width]", access: "reads and writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
    },
  },
  addGram: {
    computes: "gram[i, j] += Σ x[m, i] · x[m, j] over the rows, for j <= i.",
    operands: {
      gram: { kind: "f32", shape: "[width, width]", access: "reads and writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
    },
  },
  factorise: {
    computes:
      "For the symmetric matrix H, whose lower half `gram` has: adds `damping` times the mean of its diagonal to the diagonal, and writes L and D of " +
      "H = L · D · Lᵀ in its place; L has ones on the diagonal, where D is written.",
    operands: {
      gram: { kind: "f32", shape: "[width, width]", access: "reads and writes", note: "the upper half is left alone" },
      width: { kind: "integer", note: "at least 1" },
      damping: { kind: "number", note: "above 0" },
    },
  },
} as const;
