/** The part of the table of operations that makes weights smaller; see ops.ts. */

const NUM_ROWS = { kind: "integer", note: "M" } as const;

export const WEIGHT_OPS = {
  encodeRows: {
    computes:
      "Writes rows of x to out in the blocks of `type`, so that Σ importance[c] · (x[m, c] − its decoded value)² is small: scales and minima are " +
      "searched. Bytes do not depend on the instruction set or on the number of threads.",
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
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "a multiple of the type's block" },
      type: { kind: "code", of: "BlockType" },
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
} as const;
