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
import type { FeedForwardScratch } from "./feed-forward.js";
import type { Rows } from "./last-rows.js";
import { ADDED, type Products, recordNorm } from "./products.js";
import type { ExpertWeights, LayerWeights } from "./weights.js";

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
  /** Inputs of the products, for the rows of all places. */
  readonly inputs: ProductInputs;
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
    inputs: backend.productInputs(maxPlaces),
  };
}

export class Experts {
  constructor(
    private readonly config: ServableModel,
    private readonly weights: ExpertWeights,
    private readonly norms: Pick<LayerWeights, "ffNorm" | "ffSumNorm">,
    private readonly scratch: ExpertScratch,
    private readonly products: Products,
  ) {}

  record(program: Program, { hidden, numRows }: Rows): void {
    const { width, rmsEps, activation } = this.config;
    const { part, downs, sumBias, shared, sharedGate } = this.weights;
    const { active: numChosen, width: inner } = part;
    const { normed, places, weights, groups, gate, up, out, inputs, sharedGate: gates } = this.scratch;
    const numSlots = numRows * numChosen;
    const { ffNorm, ffSumNorm } = this.norms;
    const input = recordNorm(program, normed, hidden, numRows, { weights: ffNorm, width, eps: rmsEps });
    this.#recordChoice(program, input, numRows);
    this.#recordInner(program, input, numRows);
    this.products.measure(program, downs.weights, gate, numSlots, inner);
    const [downX] = inputs.prepare(program, gate, [downs.weights], numSlots, inner);
    program.record("expertLinear", { out, x: downX!, ...downs, groups, numSlots });
    const sums = { out: hidden, x: out, places, weights, numRows, numChosen, width, bias: sumBias };
    program.record("combineExperts", sums);
    if (shared !== undefined) {
      const [toGate, toUp] = this.products.operands(program, input, [shared.gate, shared.up], numRows, width);
      const linears = gatedOperands(toGate!, toUp!);
      program.record("gatedLinear", { out: gate, scratch: up, numRows, kind: activation, ...linears });
      if (sharedGate !== undefined) {
        program.record("linear", { out: gates, x: input, ...sharedGate, numRows });
        const product = { x: gate, gate: gates, numRows, width: shared.width, gateWidth: 1, kind: "sigmoid" } as const;
        program.record("applyGate", product);
      }
      this.products.multiply(program, hidden, gate, shared.down, numRows, shared.width, ADDED);
    }
    recordNorm(program, hidden, hidden, numRows, { weights: ffSumNorm, width, eps: rmsEps });
  }

  /** Each row's experts, their weights, and the places of the rows of each expert. */
  #recordChoice(program: Program, input: BufferHandle, numRows: number): void {
    const { width, routing } = this.config;
    const { part, router, gates, ups, scoreBias } = this.weights;
    const { logits, chosen, places, weights, groups } = this.scratch;
    const choice = { numRows, numExperts: part.count, numChosen: part.active };
    this.products.measure(program, (gates ?? ups).weights, input, numRows, width);
    program.record("linear", { out: logits, x: input, ...router, numRows });
    const { scoring, scale, normalises, numGroups, numUsedGroups } = routing;
    program.record("routeExperts", {
      ...choice,
      experts: chosen,
      weights,
      logits,
      normalises,
      scoring,
      scale,
      numGroups,
      numUsedGroups,
      bias: scoreBias,
    });
    program.record("groupExperts", { ...choice, groups, places, experts: chosen });
  }

  /** What `downs` multiply, into the scratch's `gate` [numRows · k, inner]. */
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
