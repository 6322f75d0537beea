/** The part of the table of operations that moves rows and columns; see ops.ts. */

const NUM_ROWS = { kind: "integer", note: "M" } as const;

export const ROW_OPS = {
  gatherRows: {
    computes: "out[m] = x[rows[m]].",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "writes" },
      x: { kind: "f32", shape: "[*, width]", access: "reads" },
      rows: { kind: "i32", shape: "[numRows]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "at least 1" },
    },
  },
  spreadColumns: {
    computes: "out[m, columns[i]] = x[m, i], and −∞ in the columns of out that are not named.",
    operands: {
      out: { kind: "f32", shape: "[numRows, outWidth]", access: "writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      columns: { kind: "i32", shape: "[width]", access: "reads", note: "each in [0, outWidth)" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
      outWidth: { kind: "integer" },
    },
  },
} as const;
