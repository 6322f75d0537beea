/** Adds the output of a sub-layer to the residual stream, after a norm in some models. */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { Rows } from "./last-rows.js";
import { ADDED, type Products, recordNorm } from "./products.js";
import type { Linear } from "./weights.js";

interface ResidualPart {
  /** [M, width] for the output before its norm. */
  readonly normed: BufferHandle;
  readonly width: number;
  readonly rmsEps: number;
}

/** hidden += [postNorm](x [rows, cols] · linearᵀ) */
export function addToResidual(
  program: Program,
  products: Products,
  { normed, width, rmsEps }: ResidualPart,
  { hidden, numRows }: Rows,
  x: BufferHandle,
  cols: number,
  linear: Linear,
  postNorm: BufferHandle | undefined,
): void {
  if (postNorm === undefined) {
    products.multiply(program, hidden, x, linear, numRows, cols, ADDED);
    return;
  }
  products.multiply(program, normed, x, linear, numRows, cols);
  recordNorm(program, normed, normed, numRows, { gain: postNorm, width, eps: rmsEps });
  program.record("add", { out: hidden, x: normed, numRows, width });
}
