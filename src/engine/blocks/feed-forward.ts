/**
 * A layer's dense feed-forward part: hidden += down(activation(gate(x)) · up(x)), x the normed residual stream;
 * down(activation(up(x))) without a gate.
 */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import { gatedOperands, type Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import { innerWidth, mostOf } from "../../model/description/sizes.js";
import type { Rows } from "./last-rows.js";
import { type Products, recordNorm } from "./products.js";
import { addToResidual } from "./residual.js";
import type { DenseWeights, LayerWeights } from "./weights.js";

/** Scratch of a step's rows, f32, M = maxRows; all layers share it. */
export interface FeedForwardScratch {
  /** [M, width] */
  readonly normed: BufferHandle;
  /** [M, inner width of the part] */
  readonly gate: BufferHandle;
  readonly up: BufferHandle;
}

/** @param normed [M, width], shared with the attention */
export function allocateFeedForwardScratch(
  config: ServableModel,
  backend: Backend,
  maxRows: number,
  normed: BufferHandle,
): FeedForwardScratch {
  const floats = () => backend.allocate(maxRows * mostOf(config, innerWidth) * 4);
  return { normed, gate: floats(), up: floats() };
}

export class FeedForward {
  constructor(
    private readonly config: ServableModel,
    private readonly weights: DenseWeights,
    private readonly norms: Pick<LayerWeights, "ffNorm" | "ffPostNorm" | "ffSumNorm">,
    private readonly scratch: FeedForwardScratch,
    private readonly products: Products,
  ) {}

  record(program: Program, rows: Rows): void {
    const { width, rmsEps, activation, residualScale } = this.config;
    const { gate, up, down, width: inner } = this.weights;
    const { ffNorm, ffPostNorm, ffSumNorm } = this.norms;
    const { normed, gate: out, up: scratch } = this.scratch;
    const { hidden, numRows } = rows;
    const input = recordNorm(program, normed, hidden, numRows, { weights: ffNorm, width, eps: rmsEps });
    if (gate === undefined) {
      this.products.multiply(program, out, input, up, numRows, width);
      program.record("activate", { x: out, numRows, width: inner, kind: activation });
    } else {
      const [toGate, toUp] = this.products.operands(program, input, [gate, up], numRows, width);
      program.record("gatedLinear", { out, scratch, numRows, kind: activation, ...gatedOperands(toGate!, toUp!) });
    }
    const residual = { normed, width, rmsEps, residualScale, postNorm: ffPostNorm, sumNorm: ffSumNorm };
    addToResidual(program, this.products, residual, rows, out, inner, down);
  }
}
