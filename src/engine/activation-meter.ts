/**
 * Statistics of the inputs of a model's matrices over given texts: mean squares and largest magnitudes of columns, and
 * Gram matrices.
 */

import type { AnyWeight, Backend } from "../backend/backend.js";
import type { LatentMixer, Mixer } from "../model/description/model-description.js";
import { mixedOutputs } from "../model/description/sizes.js";
import type { OpenModel } from "../model/open-model.js";
import type { EngineOptions } from "./api/options.js";
import type { InputMeter } from "./blocks/products.js";
import {
  type AnyLayerWeights,
  type ConvolutionLayerWeights,
  type DeltaLayerWeights,
  type DenseWeights,
  isConvolutionLayer,
  isDeltaLayer,
  isLatentLayer,
  isMambaLayer,
  isMixerless,
  type LatentLayerWeights,
  type LayerWeights,
  type MambaLayerWeights,
} from "./blocks/weights.js";
import type { EngineParts } from "./engine-parts.js";
import { openAlone, wholeText } from "./lone-model.js";
import { computeText } from "./rehearsal.js";

/** An input of one product or of several. */
interface MeteredInput {
  /** llama.cpp's names, without `.weight`, of the matrices that multiply the input. */
  readonly names: readonly string[];
  readonly cols: number;
  readonly meter: InputMeter;
  /** Rows of the input for each token. */
  readonly rowsPerToken: number;
}

/** Bytes of an operation's result, by its number of columns. */
const BYTES: Readonly<Record<InputMeter["op"], (cols: number) => number>> = {
  addSquares: (cols) => 8 * cols,
  addGram: (cols) => 4 * cols ** 2,
  keepLargest: (cols) => 4 * cols,
};

export interface MeasuredInput {
  readonly names: readonly string[];
  /** f64 [cols] */
  readonly sums: Float64Array;
  readonly numRows: number;
}

export interface MeasuredGram {
  readonly names: readonly string[];
  readonly cols: number;
  /** f32 [cols, cols]: sums of the products of two columns; only the lower half is written. */
  readonly gram: Float32Array;
}

export class ActivationMeter {
  #inputs: readonly MeteredInput[] = [];
  #numTokens = 0;

  /** Rejects with the errors of opening a model. */
  static async open(options: EngineOptions): Promise<ActivationMeter> {
    const { model, parts, backend } = await openAlone(options);
    return new ActivationMeter(model, parts, backend);
  }

  private constructor(
    private readonly model: OpenModel,
    private readonly parts: EngineParts,
    private readonly backend: Backend,
  ) {}

  /**
   * Mean squares of every input.
   * @param onText called after each text
   */
  async squares(
    texts: readonly (readonly number[])[],
    onText: (numTexts: number) => Promise<void>,
  ): Promise<readonly MeasuredInput[]> {
    await this.#measure("addSquares", 0, this.numLayers, texts, onText);
    const measured: MeasuredInput[] = [];
    for (const { names, cols, meter, rowsPerToken } of this.#inputs) {
      const sums = new Float64Array(cols);
      await this.backend.read(meter.sums, 0, sums);
      measured.push({ names, sums, numRows: this.#numTokens * rowsPerToken });
    }
    return measured;
  }

  /**
   * Largest magnitudes of every input's columns, f32 [cols].
   * @param onText called after each text
   */
  async largest(
    texts: readonly (readonly number[])[],
    onText: (numTexts: number) => Promise<void>,
  ): Promise<readonly { readonly names: readonly string[]; readonly largest: Float32Array<ArrayBuffer> }[]> {
    await this.#measure("keepLargest", 0, this.numLayers, texts, onText);
    const measured: { readonly names: readonly string[]; readonly largest: Float32Array<ArrayBuffer> }[] = [];
    for (const { names, cols, meter } of this.#inputs) {
      const largest = new Float32Array(cols);
      await this.backend.read(meter.sums, 0, largest);
      measured.push({ names, largest });
    }
    return measured;
  }

  /**
   * Gram matrices of the inputs of some layers. Inputs that a router sends to a few experts have none.
   * @param onGram gets the matrices one after another; it may change a matrix and must not keep it. The device's copy
   * is released before the call
   */
  async grams(
    first: number,
    numLayers: number,
    texts: readonly (readonly number[])[],
    onText: (numTexts: number) => Promise<void>,
    onGram: (gram: MeasuredGram) => Promise<void>,
  ): Promise<void> {
    await this.#measure("addGram", first, numLayers, texts, onText);
    const inputs = this.#inputs;
    this.#inputs = [];
    // One buffer for all matrices: a buffer for each would stay in memory until it is garbage-collected.
    const largest = inputs.reduce((most, { cols }) => Math.max(most, cols), 0);
    const buffer = new Float32Array(largest ** 2);
    for (const { names, cols, meter } of inputs) {
      const gram = buffer.subarray(0, cols * cols);
      await this.backend.read(meter.sums, 0, gram);
      this.backend.release(meter.sums);
      await onGram({ names, cols, gram });
    }
  }

  /** Bytes of each Gram matrix of a layer. */
  gramBytes(layer: number): readonly number[] {
    return this.#inputsOf(layer, "addGram").map(({ cols }) => 4 * cols ** 2);
  }

  get numLayers(): number {
    return this.parts.weights.layers.length;
  }

  close(): void {
    this.parts.constraints.close();
    this.backend.destroy();
  }

  async #measure(
    op: InputMeter["op"],
    first: number,
    numLayers: number,
    texts: readonly (readonly number[])[],
    onText: (numTexts: number) => Promise<void>,
  ): Promise<void> {
    const before = this.#inputs;
    this.#inputs = [];
    for (const { meter } of before) this.backend.release(meter.sums);
    const meters = new Map<AnyWeight, InputMeter>();
    this.#inputs = Array.from({ length: numLayers }, (_, index) => first + index).flatMap((index) =>
      this.#inputsOf(index, op).map(({ first: weight, names, cols, rowsPerToken = 1 }) => {
        const sums = this.backend.allocate(BYTES[op](cols));
        const meter = { op, sums };
        meters.set(weight, meter);
        return { names: names.map((name) => `blk.${index}.${name}`), cols, meter, rowsPerToken };
      }),
    );
    this.parts.transformer.meterInputs(meters, first + numLayers);
    this.#numTokens = 0;
    for (const [index, ids] of texts.entries()) {
      await computeText(this.parts, wholeText(ids), Number.POSITIVE_INFINITY, async () => {});
      this.#numTokens += ids.length;
      await onText(index + 1);
    }
  }

  #inputsOf(index: number, op: InputMeter["op"]): readonly LayerInput[] {
    const { weights, transformer } = this.parts;
    const inputs = inputsOf(weights.layers[index]!, transformer.width, this.model.config.layers[index]!.mixer);
    return op === "addGram" ? inputs.filter(({ isRouted }) => isRouted !== true) : inputs;
  }
}

interface LayerInput {
  /** The matrix that the input is multiplied with first. */
  readonly first: AnyWeight;
  readonly names: readonly string[];
  readonly cols: number;
  readonly rowsPerToken?: number;
  /** A router sends only some of the input's rows to each of the matrices. */
  readonly isRouted?: true;
}

/** The inputs of a layer's products, and every name that files have for the matrices behind them. */
function inputsOf(layer: AnyLayerWeights, width: number, mixer: Mixer): readonly LayerInput[] {
  const { feedForward } = layer;
  const ofMixer = mixerInputs(layer, width, mixer);
  if (feedForward === undefined) return ofMixer;
  if (feedForward.kind === "dense") return [...ofMixer, ...denseInputs(feedForward, width, "")];
  const { gates, ups, downs, part, shared, beside } = feedForward;
  const down = { names: ["ffn_down_exps"], cols: part.width, rowsPerToken: part.active };
  return [
    ...ofMixer,
    { first: (gates ?? ups).weights, names: ["ffn_gate_exps", "ffn_up_exps"], cols: width, isRouted: true },
    { first: downs.weights, ...down, isRouted: true },
    ...(shared === undefined ? [] : denseInputs(shared, width, beside === undefined ? "_shexp" : "")),
  ];
}

function mixerInputs(layer: AnyLayerWeights, width: number, mixer: Mixer): readonly LayerInput[] {
  if (isMixerless(layer)) return [];
  if (isLatentLayer(layer)) return latentInputs(layer, width, mixer as LatentMixer);
  const mixed = mixedOutputs(mixer);
  if (isDeltaLayer(layer)) return recurrentInputs(layer, width, mixed);
  if (isMambaLayer(layer)) return mambaInputs(layer, width, mixed);
  return isConvolutionLayer(layer) ? convolutionInputs(layer, width, mixed) : attentionInputs(layer, width, mixed);
}

const mambaInputs = ({ mamba }: MambaLayerWeights, width: number, mixed: number): readonly LayerInput[] => [
  { first: mamba.gate.weight, names: ["ssm_in"], cols: width },
  { first: mamba.output.weight, names: ["ssm_out"], cols: mixed },
];

const convolutionInputs = (
  { convolution }: ConvolutionLayerWeights,
  width: number,
  mixed: number,
): readonly LayerInput[] => [
  { first: convolution.before.weight, names: ["shortconv.in_proj"], cols: width },
  { first: convolution.output.weight, names: ["shortconv.out_proj"], cols: mixed },
];

/** The matrices of a head's keys and of its values see every token once for each head. */
function latentInputs(
  { latent }: LatentLayerWeights,
  width: number,
  { numHeads, headDim, valueDim, kvRank, queryRank }: LatentMixer,
): readonly LayerInput[] {
  const { compression, query, keys, values, output } = latent;
  const ofWidth = (first: AnyWeight, name: string) => ({ first, names: [name, "attn_kv_a_mqa"], cols: width });
  const queries =
    compression === undefined
      ? [ofWidth(query.weight, "attn_q")]
      : [ofWidth(compression.linear.weight, "attn_q_a"), { first: query.weight, names: ["attn_q_b"], cols: queryRank }];
  const ofHead = { rowsPerToken: numHeads, isRouted: true } as const;
  return [
    ...queries,
    { first: keys.weights, names: ["attn_k_b"], cols: headDim, ...ofHead },
    { first: values.weights, names: ["attn_v_b"], cols: kvRank, ...ofHead },
    { first: output.weight, names: ["attn_output"], cols: numHeads * valueDim },
  ];
}

const attentionInputs = (
  { query, attentionOutput }: LayerWeights,
  width: number,
  ofHeads: number,
): readonly LayerInput[] => [
  { first: query.weight, names: ["attn_q", "attn_gate", "attn_k", "attn_v", "attn_qkv"], cols: width },
  { first: attentionOutput.weight, names: ["attn_output"], cols: ofHeads },
];

const RECURRENT_NAMES = ["attn_qkv", "attn_gate", "ssm_in", "ssm_alpha", "ssm_beta", "ssm_ba"];

function recurrentInputs({ delta }: DeltaLayerWeights, width: number, ofHeads: number): readonly LayerInput[] {
  const { mixed, output } = delta;
  const first = "fused" in mixed ? mixed.fused : mixed.mixed;
  return [
    { first: first.weight, names: RECURRENT_NAMES, cols: width },
    { first: output.weight, names: ["ssm_out"], cols: ofHeads },
  ];
}

function denseInputs({ gate, up, down, width: inner }: DenseWeights, width: number, end: string): LayerInput[] {
  return [
    { first: (gate ?? up).weight, names: [`ffn_gate${end}`, `ffn_up${end}`], cols: width },
    { first: down.weight, names: [`ffn_down${end}`], cols: inner },
  ];
}
