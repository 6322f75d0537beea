/**
 * A layer's mixture of experts: hidden += the weighted sum of down(activation(gate(x)) · up(x)), or of
 * down(activation(up(x))) without gates, of the experts that a router chooses for each row, x the normed residual
 * stream; plus the same of the shared part that all rows pass, in models that have one. Rows are brought together by
 * expert, and back; the lists of places never leave the device.
 */
import type { Backend, ProductInputs } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import { gatedOperands, type Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import { expertsOf } from "../../model/description/sizes.js";
import { constants } from "./constants.js";
import type { FeedForwardScratch } from "./feed-forward.js";
import type { Rows } from "./last-rows.js";
import { ADDED, type Products, recordNorm } from "./products.js";
import type { ExpertWeights, LayerWeights, NormWeights } from "./weights.js";

/** Scratch of a step's rows, M = maxRows, k experts of each; all layers share it. */
interface ExpertScratch extends FeedForwardScratch {
  /** f32 [M, experts] */
  readonly logits: BufferHandle;
  /** i32 [M, k] */
  readonly chosen: BufferHandle;
  readonly places: BufferHandle;
  /** f32 [M, k] */
  readonly weights: BufferHandle;
  /** i32 [experts, 3] */
  readonly groups: BufferHandle;
  /** f32 [M · k, width] */
  readonly out: BufferHandle;
  /** f32 [M] */
  readonly sharedGate: BufferHandle;
  /** Where the sum of the experts is not added to the residual stream as it is. */
  readonly apart: ApartScratch | undefined;
  /** Inputs of the products, for the rows of all places. */
  readonly inputs: ProductInputs;
}

interface ApartScratch {
  /** f32 [M, width]: sums of the experts, and of the dense part */
  readonly mixed: BufferHandle;
  readonly dense: BufferHandle;
  /** f32 [1, width], and the row of it that each row of a step starts from, i32 [M] */
  readonly zeros: BufferHandle;
  readonly zeroRows: BufferHandle;
}

/** @returns undefined for a model without experts @param dense shared with the dense parts */
export function allocateExpertScratch(
  config: ServableModel,
  backend: Backend,
  maxRows: number,
  dense: FeedForwardScratch,
): ExpertScratch | undefined {
  const experts = expertsOf(config);
  if (experts === undefined) return undefined;
  const { count, active } = experts;
  const maxPlaces = maxRows * active;
  return {
    ...dense,
    logits: backend.allocate(maxRows * count * 4),
    chosen: backend.allocate(maxPlaces * 4),
    places: backend.allocate(maxPlaces * 4),
    weights: backend.allocate(maxPlaces * 4),
    groups: backend.allocate(count * 3 * 4),
    out: backend.allocate(maxPlaces * config.width * 4),
    sharedGate: backend.allocate(maxRows * 4),
    apart: config.hasDenseBesideExperts ? allocateApart(config.width, backend, maxRows) : undefined,
    inputs: backend.productInputs(maxPlaces),
  };
}

function allocateApart(width: number, backend: Backend, maxRows: number): ApartScratch {
  const zeros = constants(backend, new Float32Array(width));
  const zeroRows = constants(backend, new Int32Array(maxRows));
  const floats = () => backend.allocate(maxRows * width * 4);
  return { mixed: floats(), dense: floats(), zeros, zeroRows };
}

export class Experts {
  constructor(
    private readonly config: ServableModel,
    private readonly weights: ExpertWeights,
    private readonly norms: Pick<LayerWeights, "ffNorm" | "ffPostNorm" | "ffSumNorm">,
    private readonly scratch: ExpertScratch,
    private readonly products: Products,
  ) {}

  record(program: Program, rows: Rows): void {
    const { beside, shared } = this.weights;
    if (beside !== undefined && shared !== undefined) this.#recordBeside(program, rows, beside, shared);
    else this.#recordSummed(program, rows);
  }

  /** hidden += residualScale · (experts(norm(hidden)) + shared(norm(hidden))) */
  #recordSummed(program: Program, { hidden, numRows }: Rows): void {
    const { shared } = this.weights;
    const { width, rmsEps, residualScale } = this.config;
    const { ffNorm, ffSumNorm } = this.norms;
    const normOf = { weights: ffNorm, width, eps: rmsEps };
    const input = recordNorm(program, this.scratch.normed, hidden, numRows, normOf);
    this.#recordChoice(program, input, numRows);
    this.#recordExperts(program, input, numRows, hidden);
    if (shared !== undefined && residualScale === 1) {
      this.#recordShared(program, input, numRows, shared, hidden, ADDED);
    } else if (shared !== undefined) {
      const { normed: scaled } = this.scratch;
      this.#recordShared(program, input, numRows, shared, scaled);
      program.record("scaleAndCap", { x: scaled, numRows, width, scale: residualScale });
      program.record("add", { out: hidden, x: scaled, numRows, width });
    }
    recordNorm(program, hidden, hidden, numRows, { weights: ffSumNorm, width, eps: rmsEps });
  }

  /** hidden += norm(norm(dense(norm(hidden))) + norm(experts(norm(hidden)))); the router reads a norm of its own. */
  #recordBeside(
    program: Program,
    { hidden, numRows }: Rows,
    { routerNorm, expertsNorm, expertsPostNorm, sharedPostNorm }: NonNullable<ExpertWeights["beside"]>,
    shared: NonNullable<ExpertWeights["shared"]>,
  ): void {
    const { width, rmsEps } = this.config;
    const { ffNorm, ffPostNorm } = this.norms;
    const { normed } = this.scratch;
    const { dense } = this.scratch.apart!;
    const norm = (out: BufferHandle, x: BufferHandle, weights: NormWeights | undefined) =>
      recordNorm(program, out, x, numRows, { weights, width, eps: rmsEps });
    this.#recordShared(program, norm(normed, hidden, ffNorm), numRows, shared, dense);
    norm(dense, dense, sharedPostNorm);
    norm(normed, hidden, routerNorm);
    program.record("scaleAndCap", { x: normed, numRows, width, scale: 1 / Math.sqrt(width) });
    this.#recordChoice(program, normed, numRows);
    norm(normed, hidden, expertsNorm);
    const mixed = this.#recordZeros(program, numRows);
    this.#recordExperts(program, normed, numRows, mixed);
    norm(mixed, mixed, expertsPostNorm);
    program.record("add", { out: dense, x: mixed, numRows, width });
    norm(dense, dense, ffPostNorm);
    program.record("add", { out: hidden, x: dense, numRows, width });
  }

  /** Rows to which experts' outputs are added. */
  #recordZeros(program: Program, numRows: number): BufferHandle {
    const { mixed, zeros, zeroRows } = this.scratch.apart!;
    program.record("gatherRows", { out: mixed, x: zeros, rows: zeroRows, numRows, width: this.config.width });
    return mixed;
  }

  /** out (+)= the part that every row passes */
  #recordShared(
    program: Program,
    input: BufferHandle,
    numRows: number,
    shared: NonNullable<ExpertWeights["shared"]>,
    out: BufferHandle,
    options?: typeof ADDED,
  ): void {
    const { width, activation } = this.config;
    const { sharedGate } = this.weights;
    const { gate, up, sharedGate: gates } = this.scratch;
    if (shared.gate === undefined) {
      this.products.multiply(program, gate, input, shared.up, numRows, width);
      program.record("activate", { x: gate, numRows, width: shared.width, kind: activation });
    } else {
      const [toGate, toUp] = this.products.operands(program, input, [shared.gate, shared.up], numRows, width);
      const linears = gatedOperands(toGate!, toUp!);
      program.record("gatedLinear", { out: gate, scratch: up, numRows, kind: activation, ...linears });
    }
    if (sharedGate !== undefined) {
      program.record("linear", { out: gates, x: input, ...sharedGate, numRows });
      const product = { x: gate, gate: gates, numRows, width: shared.width, gateWidth: 1, kind: "sigmoid" } as const;
      program.record("applyGate", product);
    }
    this.products.multiply(program, out, gate, shared.down, numRows, shared.width, options);
  }

  /** sum += the weighted sum of the chosen experts. Call after `#recordChoice`. */
  #recordExperts(program: Program, input: BufferHandle, numRows: number, sum: BufferHandle): void {
    const { width } = this.config;
    const { part, gates, ups, downs, sumBias } = this.weights;
    const { active: numChosen, width: inner } = part;
    const { places, weights, groups, gate, out, inputs } = this.scratch;
    const numSlots = numRows * numChosen;
    this.products.measure(program, (gates ?? ups).weights, input, numRows, width);
    this.#recordInner(program, input, numRows);
    this.products.measure(program, downs.weights, gate, numSlots, inner);
    const [downX] = inputs.prepare(program, gate, [downs.weights], numSlots, inner);
    program.record("expertLinear", { out, x: downX!, ...downs, groups, numSlots });
    program.record("combineExperts", { out: sum, x: out, places, weights, numRows, numChosen, width, bias: sumBias });
  }

  /** Each row's experts, their weights, and the places of the rows of each expert. */
  #recordChoice(program: Program, input: BufferHandle, numRows: number): void {
    const { routing, residualScale } = this.config;
    const { part, router, scoreBias, beside } = this.weights;
    const { logits, chosen, places, weights, groups } = this.scratch;
    const choice = { numRows, numExperts: part.count, numChosen: part.active };
    program.record("linear", { out: logits, x: input, ...router, numRows });
    const { scoring, scale, normalises, numGroups, numUsedGroups } = routing;
    program.record("routeExperts", {
      ...choice,
      experts: chosen,
      weights,
      logits,
      normalises,
      scoring,
      // The router's weights also carry the residual scale, so the experts' sum is added as it is.
      scale: scale * residualScale,
      numGroups,
      numUsedGroups,
      bias: scoreBias,
      factors: beside?.factors,
    });
    program.record("groupExperts", { ...choice, groups, places, experts: chosen });
  }

  /** Records the inputs of `downs`, into the scratch's `gate` [numRows · k, inner]. */
  #recordInner(program: Program, input: BufferHandle, numRows: number): void {
    const { width, activation } = this.config;
    const { part, gates, ups } = this.weights;
    const { places, groups, gate, up, inputs } = this.scratch;
    const dispatch = { places, numRows, numChosen: part.active };
    const numSlots = numRows * part.active;
    if (gates === undefined) {
      const [x] = inputs.dispatch(program, input, [ups.weights], dispatch, width);
      program.record("expertLinear", { out: gate, x: x!, ...ups, groups, numSlots });
      program.record("activate", { x: gate, numRows: numSlots, width: part.width, kind: activation });
      return;
    }
    const [gateX, upX] = inputs.dispatch(program, input, [gates.weights, ups.weights], dispatch, width);
    program.record("expertGatedLinear", {
      out: gate,
      scratch: up,
      gateX: gateX!,
      gateWeights: gates.weights,
      upX: upX!,
      upWeights: ups.weights,
      gateBiases: gates.biases,
      upBiases: ups.biases,
      groups,
      numSlots,
      kind: activation,
    });
  }
}
