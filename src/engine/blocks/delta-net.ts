/**
 * A layer with a recurrent state: hidden += out(norm(delta rule(silu(convolution(queries, keys, values)))) ·
 * silu(gate)), of the normed residual stream (Gated DeltaNet, as Qwen3-Next and Qwen3.5 have it). Prompts are computed
 * by the same recurrence as answers, token by token: the result does not depend on how a text is cut into steps.
 */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { DeltaMixer } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import { mixedWidth } from "../../model/description/sizes.js";
import type { LayerState } from "../memory/recurrent-states.js";
import type { StepBatch } from "../step/step-batch.js";
import type { Linear } from "./binder.js";
import { constants } from "./constants.js";
import type { LayerMixer } from "./layer-mixer.js";
import { type Products, recordNorm } from "./products.js";
import { addToResidual } from "./residual.js";
import { type DeltaWeights, isDeltaLayer, type ModelWeights } from "./weights.js";

/** Added to the squared length of queries and keys. */
const LENGTH_EPS = 1e-6;

/** Scratch of a step's rows, f32, M = maxRows; all layers share it. */
interface DeltaScratch {
  /** [M, width] */
  readonly normed: BufferHandle;
  /** [M, queries, keys and values], before and after the convolution */
  readonly mixed: BufferHandle;
  readonly convolved: BufferHandle;
  /** [M, values] */
  readonly gate: BufferHandle;
  readonly recalled: BufferHandle;
  /** [M, heads] */
  readonly alpha: BufferHandle;
  readonly beta: BufferHandle;
  /** Outputs of matrices that compute several of these at once, and the place of each; undefined: there are none. */
  readonly fused: FusedScratch | undefined;
}

/** Vectors of `vectorWidth` values lie in order of key heads; the indices, i32, say where each of ours is. */
interface FusedScratch {
  readonly both: BufferHandle;
  readonly vectorWidth: number;
  readonly mixedRows: BufferHandle;
  readonly gateRows: BufferHandle;
  /** [M, 2, heads]: each key head's betas, then its alphas */
  readonly gates: BufferHandle;
  readonly betaRows: BufferHandle;
  readonly alphaRows: BufferHandle;
}

/** @returns undefined for a model without recurrent layers @param normed [M, width], shared with other parts */
export function allocateDeltaScratch(
  { layers }: ServableModel,
  weights: ModelWeights,
  backend: Backend,
  maxRows: number,
  normed: BufferHandle,
): DeltaScratch | undefined {
  const mixer = layers.map((layer) => layer.mixer).find((each) => each.kind === "delta");
  if (mixer === undefined) return undefined;
  const { numHeads, valueDim } = mixer;
  const floats = (width: number) => backend.allocate(maxRows * width * 4);
  const mixed = mixedWidth(mixer);
  const isFused = weights.layers.some(
    (layer) => isDeltaLayer(layer) && ("fused" in layer.delta.mixed || "fused" in layer.delta.gates),
  );
  return {
    normed,
    mixed: floats(mixed),
    convolved: floats(mixed),
    gate: floats(numHeads * valueDim),
    recalled: floats(numHeads * valueDim),
    alpha: floats(numHeads),
    beta: floats(numHeads),
    fused: isFused ? allocateFused(mixer, backend, maxRows) : undefined,
  };
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

function allocateFused(mixer: DeltaMixer, backend: Backend, maxRows: number): FusedScratch {
  const { numKeyHeads, numHeads, headDim, valueDim } = mixer;
  const vectorWidth = gcd(headDim, valueDim);
  const ofKey = headDim / vectorWidth;
  const ofValues = ((numHeads / numKeyHeads) * valueDim) / vectorWidth;
  const perHead = 2 * (ofKey + ofValues);
  const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
  /** Vectors [start, start + count) of every key head. */
  const ofHeads = (start: number, count: number) =>
    numbers(numKeyHeads).flatMap((head) => numbers(count).map((i) => head * perHead + start + i));
  const ofAllRows = (ofRow: readonly number[], perRow: number) =>
    constants(
      backend,
      Int32Array.from(
        { length: maxRows * ofRow.length },
        (_, i) => Math.floor(i / ofRow.length) * perRow + ofRow[i % ofRow.length]!,
      ),
    );
  const mixed = [...ofHeads(0, ofKey), ...ofHeads(ofKey, ofKey), ...ofHeads(2 * ofKey, ofValues)];
  const perRow = numKeyHeads * perHead;
  const everyOther = (first: number) =>
    ofAllRows(
      numbers(numKeyHeads).map((head) => 2 * head + first),
      2 * numKeyHeads,
    );
  return {
    both: backend.allocate(maxRows * perRow * vectorWidth * 4),
    vectorWidth,
    mixedRows: ofAllRows(mixed, perRow),
    gateRows: ofAllRows(ofHeads(2 * ofKey + ofValues, ofValues), perRow),
    gates: backend.allocate(maxRows * 2 * numHeads * 4),
    betaRows: everyOther(0),
    alphaRows: everyOther(1),
  };
}

export class DeltaNet implements LayerMixer {
  constructor(
    private readonly config: ServableModel,
    private readonly mixer: DeltaMixer,
    private readonly weights: DeltaWeights,
    private readonly state: LayerState,
    private readonly scratch: DeltaScratch,
    private readonly products: Products,
  ) {}

  store(program: Program, hidden: BufferHandle, batch: StepBatch): void {
    const { width, rmsEps, residualScale } = this.config;
    const { numHeads, numKeyHeads, headDim, valueDim, numTaps, isTiled } = this.mixer;
    const { norm, kernel, decay, bias, headNorm, output } = this.weights;
    const { normed, mixed, convolved, gate, recalled, alpha, beta } = this.scratch;
    const { numRows } = batch;
    const input = recordNorm(program, normed, hidden, numRows, { weights: norm, width, eps: rmsEps });
    this.#project(program, input, numRows);
    const { past, recurrent, numSlots } = this.state;
    const { stateSources, stateTargets, stateSnapshots } = batch;
    const slots = { sources: stateSources.buffer, targets: stateTargets.buffer, copies: stateSnapshots.buffer };
    const rows = { ...slots, numRows, numSlots };
    const convolution = {
      out: convolved,
      x: mixed,
      kernel,
      state: past,
      width: mixedWidth(this.mixer),
      taps: numTaps,
      isActivated: true,
    };
    program.record("causalConv", { ...convolution, ...rows });
    program.record("deltaRule", {
      out: recalled,
      x: convolved,
      alpha,
      beta,
      decay,
      bias,
      state: recurrent,
      ...rows,
      numKeyHeads,
      numValueHeads: numHeads,
      keyDim: headDim,
      valueDim,
      isTiled,
      eps: LENGTH_EPS,
    });
    const inner = numHeads * valueDim;
    const heads = { weights: headNorm, width: valueDim, eps: rmsEps };
    recordNorm(program, recalled, recalled, numRows * numHeads, heads);
    program.record("applyGate", { x: recalled, gate, numRows, width: inner, gateWidth: inner, kind: "silu" });
    const residual = { normed, width, rmsEps, residualScale, postNorm: undefined, sumNorm: undefined };
    addToResidual(program, this.products, residual, { hidden, numRows }, recalled, inner, output);
  }

  /** Nothing is evicted here. */
  observe(): void {}

  /** `store` has computed all rows: later tokens need the state after each. */
  attend(): void {}

  #project(program: Program, input: BufferHandle, numRows: number): void {
    const { mixed: projection, gates } = this.weights;
    const { mixed, gate, alpha, beta } = this.scratch;
    // Of layers whose matrices are apart, nothing of it is read.
    const fused = this.scratch.fused!;
    const products: { readonly out: BufferHandle; readonly linear: Linear }[] = [];
    if ("fused" in projection) products.push({ out: fused.both, linear: projection.fused });
    else products.push({ out: mixed, linear: projection.mixed }, { out: gate, linear: projection.gate });
    if ("fused" in gates) products.push({ out: fused.gates, linear: gates.fused });
    else products.push({ out: alpha, linear: gates.alpha }, { out: beta, linear: gates.beta });
    this.products.multiplyAll(program, products, input, numRows, this.config.width);
    const { numHeads, numKeyHeads, valueDim } = this.mixer;
    if ("fused" in projection) {
      const { both: x, vectorWidth: width, mixedRows, gateRows } = fused;
      const count = (values: number) => ({ x, width, numRows: (numRows * values) / width });
      program.record("gatherRows", { out: mixed, rows: mixedRows, ...count(mixedWidth(this.mixer)) });
      program.record("gatherRows", { out: gate, rows: gateRows, ...count(numHeads * valueDim) });
    }
    if ("fused" in gates) {
      const { gates: x, betaRows, alphaRows } = fused;
      const vectors = { x, width: numHeads / numKeyHeads, numRows: numRows * numKeyHeads };
      program.record("gatherRows", { out: beta, rows: betaRows, ...vectors });
      program.record("gatherRows", { out: alpha, rows: alphaRows, ...vectors });
    }
  }
}
