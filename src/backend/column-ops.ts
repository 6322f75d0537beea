/** The part of the table of operations that takes vectors apart and puts them together; see ops.ts. */

export const COLUMN_OPS = {
  copyColumns: {
    computes:
      "out[m, to + i] = x[r, from + i] for i < width, where r is rows[m] or, without rows, m. Other columns are left as they are, and so is a " +
      "row whose r is out of range.",
    operands: {
      out: { kind: "f32", shape: "[numRows, outWidth]", access: "reads and writes" },
      x: { kind: "f32", shape: "[*, xWidth]", access: "reads", note: "numRows rows" },
      rows: { kind: "i32", shape: "[numRows]", access: "reads", optional: true },
      numRows: { kind: "integer", note: "M" },
      width: { kind: "integer", note: "at least 1" },
      outWidth: { kind: "integer", note: "at least to + width" },
      to: { kind: "integer" },
      xWidth: { kind: "integer", note: "at least from + width" },
      from: { kind: "integer" },
    },
  },
} as const;
