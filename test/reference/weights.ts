/** The operations that make weights smaller, as the reference device has them. */
import { BLOCK_LAYOUT, rowByteLength } from "../../src/formats/dequantize.js";
import type { Operands } from "./operands.js";
import type { Work } from "./ops.js";

/** Which levels are best is the kernel's search: here every value is 0, the encoding of all bytes 0. kernels.encode.test.ts measures the search. */
export function encodeRows(operands: Operands<"encodeRows">): Work {
  const type = operands.code("type");
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const { numValues } = BLOCK_LAYOUT[type];
  const rowBytes = rowByteLength(type, width);
  if (rowBytes === undefined) return operands.refuse("width", `a multiple of ${numValues}`, width);
  operands.f32("x", numRows * width);
  operands.optionalF32("importance", width);
  const out = operands.bytes("out", 0, numRows * rowBytes);
  operands.requireApart("out", "x");
  return () => out.fill(0);
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
