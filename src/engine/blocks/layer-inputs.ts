/**
 * Layers' own inputs of each token (Gemma 4 calls them per-layer embeddings): a row of a second table, and a product of
 * the token's embedding. A layer gates its part by its hidden state, multiplies it by a matrix and adds the product.
 */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { StepBatch } from "../step/step-batch.js";
import type { Rows } from "./last-rows.js";
import { type Products, recordNorm } from "./products.js";
import type { LayerInputsWeights, LayerInputWeights } from "./weights.js";

export class LayerInputs {
  /** f32 [M, layers · inputWidth] */
  readonly inputs: BufferHandle;
  /** Values of all layers' inputs. */
  readonly totalWidth: number;
  /** Those of the embeddings, before they are added. */
  readonly #projected: BufferHandle;
  /** [M, inputWidth] */
  readonly #gate: BufferHandle;
  readonly #width: number;

  constructor(
    private readonly config: ServableModel,
    private readonly weights: LayerInputsWeights,
    backend: Backend,
    maxRows: number,
    private readonly products: Products,
    /** [M, width], shared with the other parts of layers */
    private readonly normed: BufferHandle,
  ) {
    this.#width = config.layerInputWidth!;
    this.totalWidth = config.layers.length * this.#width;
    const floats = (width: number) => backend.allocate(maxRows * width * 4);
    this.inputs = floats(this.totalWidth);
    this.#projected = floats(this.totalWidth);
    this.#gate = floats(this.#width);
  }

  /** Records the inputs of all layers. @param embedded [numRows, width] the tokens' embeddings */
  record(program: Program, embedded: BufferHandle, { tokenIds, numRows }: StepBatch): void {
    const { width, rmsEps, layers } = this.config;
    const { table, projection, norm } = this.weights;
    const [inputs, projected] = [this.inputs, this.#projected];
    const all = { numRows, width: this.totalWidth };
    const scale = Math.fround(Math.sqrt(this.#width));
    program.record("embed", { out: inputs, weight: table, ids: tokenIds.buffer, numRows, scale });
    this.products.multiply(program, projected, embedded, projection, numRows, width);
    program.record("scaleAndCap", { x: projected, ...all, scale: 1 / Math.sqrt(width) });
    const ofEach = { weights: norm, width: this.#width, eps: rmsEps };
    recordNorm(program, projected, projected, numRows * layers.length, ofEach);
    program.record("add", { out: inputs, x: projected, ...all });
    program.record("scaleAndCap", { x: inputs, ...all, scale: Math.SQRT1_2 });
  }

  /** hidden += norm(projection(activation(gate(hidden)) · the layer's input) */
  add(program: Program, { hidden, layerInputs, numRows }: Rows, layer: number, weights: LayerInputWeights): void {
    const { width, rmsEps, activation } = this.config;
    const [gate, own] = [this.#gate, this.#width];
    const part = { numRows, width: own };
    this.products.multiply(program, gate, hidden, weights.gate, numRows, width);
    program.record("activate", { x: gate, ...part, kind: plain(activation) });
    const x = { x: layerInputs, xWidth: this.totalWidth, first: layer * own };
    program.record("multiply", { out: gate, ...x, ...part });
    this.products.multiply(program, this.normed, gate, weights.projection, numRows, own);
    recordNorm(program, this.normed, this.normed, numRows, { weights: weights.norm, width, eps: rmsEps });
    program.record("add", { out: hidden, x: this.normed, numRows, width });
  }
}

/** The kinds of `activate`. */
function plain(activation: ServableModel["activation"]) {
  if (activation !== "clampedSwiglu") return activation;
  throw new Error("expected an activation of one value for layers' inputs, got clampedSwiglu");
}
