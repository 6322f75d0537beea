/**
 * Adds the output of a sub-layer to the residual stream, after a norm or times a factor in some models; in others the
 * sum is normed.
 */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { Linear } from "./binder.js";
import type { Rows } from "./last-rows.js";
import { ADDED, type Products, recordNorm } from "./products.js";
import type { NormWeights } from "./weights.js";

interface ResidualPart {
  /** [M, width] for the output before its norm. */
  readonly normed: BufferHandle;
  readonly width: number;
  readonly rmsEps: number;
  readonly residualScale: number;
  readonly postNorm: NormWeights | undefined;
  readonly sumNorm: NormWeights | undefined;
}

/** hidden = [sumNorm](hidden + residualScale · [postNorm](x [rows, cols] · linearᵀ)) */
export function addToResidual(
  program: Program,
  products: Products,
  { normed, width, rmsEps, residualScale, postNorm, sumNorm }: ResidualPart,
  { hidden, numRows }: Pick<Rows, "hidden" | "numRows">,
  x: BufferHandle,
  cols: number,
  linear: Linear,
): void {
  if (postNorm === undefined && residualScale === 1) {
    products.multiply(program, hidden, x, linear, numRows, cols, ADDED);
  } else {
    products.multiply(program, normed, x, linear, numRows, cols);
    recordNorm(program, normed, normed, numRows, { weights: postNorm, width, eps: rmsEps });
    if (residualScale !== 1) program.record("scaleAndCap", { x: normed, numRows, width, scale: residualScale });
    program.record("add", { out: hidden, x: normed, numRows, width });
  }
  recordNorm(program, hidden, hidden, numRows, { weights: sumNorm, width, eps: rmsEps });
}
