/**
 * A layer whose tokens meet in a short convolution: hidden += out(behind · convolution(before · inputs)), where the
 * gates and the inputs are products of the normed residual stream (LFM2, LFM3). A sequence's state is the last gated
 * inputs.
 */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ConvolutionMixer } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { LayerState } from "../memory/recurrent-states.js";
import type { StepBatch } from "../step/step-batch.js";
import type { LayerMixer } from "./layer-mixer.js";
import { type Products, recordNorm } from "./products.js";
import { addToResidual } from "./residual.js";
import type { ConvolutionWeights } from "./weights.js";

/** Scratch of a step's rows, f32 [maxRows, width] each; all layers share it. */
interface ConvolutionScratch {
  readonly normed: BufferHandle;
  readonly before: BufferHandle;
  readonly behind: BufferHandle;
  readonly inputs: BufferHandle;
  readonly convolved: BufferHandle;
}

/** @returns undefined for a model without such layers @param normed [maxRows, width], shared with other parts */
export function allocateConvolutionScratch(
  { layers, width }: ServableModel,
  backend: Backend,
  maxRows: number,
  normed: BufferHandle,
): ConvolutionScratch | undefined {
  if (!layers.some(({ mixer }) => mixer.kind === "convolution")) return undefined;
  const floats = () => backend.allocate(maxRows * width * 4);
  return { normed, before: floats(), behind: floats(), inputs: floats(), convolved: floats() };
}

export class ShortConvolution implements LayerMixer {
  constructor(
    private readonly config: ServableModel,
    private readonly mixer: ConvolutionMixer,
    private readonly weights: ConvolutionWeights,
    private readonly state: LayerState,
    private readonly scratch: ConvolutionScratch,
    private readonly products: Products,
  ) {}

  store(program: Program, hidden: BufferHandle, batch: StepBatch): void {
    const { width, rmsEps, residualScale } = this.config;
    const { numTaps } = this.mixer;
    const { norm, kernel, output, postNorm } = this.weights;
    const { normed, before, behind, inputs, convolved } = this.scratch;
    const { numRows, stateSources, stateTargets, stateSnapshots } = batch;
    const input = recordNorm(program, normed, hidden, numRows, { weights: norm, width, eps: rmsEps });
    const products = [
      { out: before, linear: this.weights.before },
      { out: behind, linear: this.weights.behind },
      { out: inputs, linear: this.weights.inputs },
    ];
    this.products.multiplyAll(program, products, input, numRows, width);
    const gated = { numRows, width, xWidth: width, first: 0 };
    program.record("multiply", { out: inputs, x: before, ...gated });
    const slots = { sources: stateSources.buffer, targets: stateTargets.buffer, copies: stateSnapshots.buffer };
    program.record("causalConv", {
      out: convolved,
      x: inputs,
      kernel,
      state: this.state.past,
      ...slots,
      numRows,
      numSlots: this.state.numSlots,
      width,
      taps: numTaps,
      isActivated: false,
    });
    program.record("multiply", { out: convolved, x: behind, ...gated });
    const residual = { normed, width, rmsEps, residualScale, postNorm, sumNorm: undefined };
    addToResidual(program, this.products, residual, { hidden, numRows }, convolved, width, output);
  }

  /** Nothing is evicted here. */
  observe(): void {}

  /** `store` has computed all rows: later tokens need the state after each. */
  attend(): void {}
}
