/**
 * A layer of Mamba-2: hidden += out(norm of each group(state space(silu(convolution(x, B, C))) · silu(gate))), of the
 * normed residual stream. Prompts are computed by the same recurrence as answers, token by token: the result does not
 * depend on how a text is cut into steps.
 */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { MambaMixer } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import { mixedOutputs, mixedWidth } from "../../model/description/sizes.js";
import type { LayerState } from "../memory/recurrent-states.js";
import type { StepBatch } from "../step/step-batch.js";
import type { LayerMixer } from "./layer-mixer.js";
import { type Products, recordNorm } from "./products.js";
import { addToResidual } from "./residual.js";
import type { MambaWeights } from "./weights.js";

/** Scratch of a step's rows, f32, M = maxRows; all layers share it. */
interface MambaScratch {
  /** [M, width] */
  readonly normed: BufferHandle;
  /** [M, x, B and C], before and after the convolution */
  readonly mixed: BufferHandle;
  readonly convolved: BufferHandle;
  /** [M, values] */
  readonly gate: BufferHandle;
  readonly scanned: BufferHandle;
  /** [M, heads] */
  readonly steps: BufferHandle;
}

/** @returns undefined for a model without such layers @param normed [maxRows, width], shared with other parts */
export function allocateMambaScratch(
  { layers }: ServableModel,
  backend: Backend,
  maxRows: number,
  normed: BufferHandle,
): MambaScratch | undefined {
  const mixer = layers.map((layer) => layer.mixer).find((each) => each.kind === "mamba");
  if (mixer === undefined) return undefined;
  const floats = (width: number) => backend.allocate(maxRows * width * 4);
  const [mixed, inner] = [mixedWidth(mixer), mixedOutputs(mixer)];
  return {
    normed,
    mixed: floats(mixed),
    convolved: floats(mixed),
    gate: floats(inner),
    scanned: floats(inner),
    steps: floats(mixer.numHeads),
  };
}

export class Mamba implements LayerMixer {
  constructor(
    private readonly config: ServableModel,
    private readonly mixer: MambaMixer,
    private readonly weights: MambaWeights,
    private readonly state: LayerState,
    private readonly scratch: MambaScratch,
    private readonly products: Products,
  ) {}

  store(program: Program, hidden: BufferHandle, batch: StepBatch): void {
    const { width, rmsEps, residualScale } = this.config;
    const { numHeads, numGroups, stateDim, valueDim, numTaps } = this.mixer;
    const { norm, kernel, kernelBias, decay, bias, skip, groupNorm, output } = this.weights;
    const { normed, mixed, convolved, gate, scanned, steps } = this.scratch;
    const { numRows, stateSources, stateTargets, stateSnapshots } = batch;
    const input = recordNorm(program, normed, hidden, numRows, { weights: norm, width, eps: rmsEps });
    const products = [
      { out: gate, linear: this.weights.gate },
      { out: mixed, linear: this.weights.mixed },
      { out: steps, linear: this.weights.steps },
    ];
    this.products.multiplyAll(program, products, input, numRows, width);
    const { past, recurrent, numSlots } = this.state;
    const slots = { sources: stateSources.buffer, targets: stateTargets.buffer, copies: stateSnapshots.buffer };
    const rows = { ...slots, numRows, numSlots };
    program.record("causalConv", {
      out: convolved,
      x: mixed,
      kernel,
      bias: kernelBias,
      state: past,
      ...rows,
      width: mixedWidth(this.mixer),
      taps: numTaps,
      isActivated: true,
    });
    program.record("selectiveScan", {
      out: scanned,
      x: convolved,
      steps,
      decay,
      bias,
      skip,
      state: recurrent,
      ...rows,
      numHeads,
      numGroups,
      stateDim,
      valueDim,
    });
    const inner = mixedOutputs(this.mixer);
    program.record("gatedNorm", { x: scanned, gate, gain: groupNorm, numRows, width: inner, numGroups, eps: rmsEps });
    const residual = { normed, width, rmsEps, residualScale, postNorm: undefined, sumNorm: undefined };
    addToResidual(program, this.products, residual, { hidden, numRows }, scanned, inner, output);
  }

  /** Nothing is evicted here. */
  observe(): void {}

  /** `store` has computed all rows: later tokens need the state after each. */
  attend(): void {}
}
