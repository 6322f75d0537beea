/**
 * A model's hidden states at every position of given texts, for training an EAGLE-3 head on any model that the engine
 * computes.
 */

import type { Backend } from "../backend/backend.js";
import { MODEL_LIMITS } from "../model/description/model-description.js";
import { readRows } from "../model/description/read-rows.js";
import { attentionMixers, latentMixers } from "../model/description/servable.js";
import type { OpenModel } from "../model/open-model.js";
import type { EngineOptions } from "./api/options.js";
import type { EngineParts } from "./engine-parts.js";
import { openAlone, wholeText } from "./lone-model.js";
import { computeText } from "./rehearsal.js";

/** Sizes and factors of the model that a head is made for. */
interface ModelFacts {
  readonly name: string;
  readonly width: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly rmsEps: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly ffWidth: number;
  readonly logitScale: number;
  readonly logitCap: number;
  /** Layers, from 0 on, whose inputs a head fuses. */
  readonly inputLayers: readonly number[];
}

/** For a model with experts: width of the head's own feed-forward part, as a multiple of the model's width. */
const FF_FACTOR = 3;
/** With fewer layers, a head reads the last layer: the third layer from the end is then an early one and tells less. */
const DEEP_LAYERS = 8;

export class ModelStates {
  readonly facts: ModelFacts;
  /** Values of a position: the inputs of the fused layers, then the state after the final norm. */
  readonly numValues: number;
  readonly #captured;

  /** Rejects with the errors of opening a model. */
  static async open(options: EngineOptions): Promise<ModelStates> {
    const { model, parts, backend } = await openAlone(options);
    return new ModelStates(model, parts, backend);
  }

  private constructor(
    private readonly model: OpenModel,
    private readonly parts: EngineParts,
    private readonly backend: Backend,
  ) {
    this.facts = factsOf(model, parts);
    const { inputLayers, width } = this.facts;
    this.#captured = parts.transformer.captureInputs(inputLayers);
    this.numValues = (inputLayers.length + 1) * width;
  }

  /** f32 [vocabSize, width]: the embeddings, and the output matrix. */
  tables(): { readonly embedding: Float32Array; readonly output: Float32Array } {
    const { vocabSize, width } = this.facts;
    const source = this.model.tensors();
    const shape = { rows: vocabSize, totalRows: vocabSize, cols: width };
    const embedding = readRows(source, "token_embd.weight", shape);
    return { embedding, output: source.has("output.weight") ? readRows(source, "output.weight", shape) : embedding };
  }

  /** @param ids a text within the context @param write gets f32 [rows, numValues] of the positions, in order */
  async read(ids: readonly number[], write: (states: Float32Array) => void): Promise<void> {
    const { transformer } = this.parts;
    const { width } = this.facts;
    await computeText(this.parts, wholeText(ids), Number.POSITIVE_INFINITY, async (numRows) => {
      await transformer.readTapped();
      const states = new Float32Array(numRows * this.numValues);
      const layer = new Float32Array(numRows * width);
      for (const [index, buffer] of this.#captured.entries()) {
        await this.backend.read(buffer, 0, layer);
        for (let row = 0; row < numRows; row++) {
          states.set(layer.subarray(row * width, (row + 1) * width), row * this.numValues + index * width);
        }
      }
      for (let row = 0; row < numRows; row++) {
        states.set(transformer.tappedHidden(row), (row + 1) * this.numValues - width);
      }
      write(states);
    });
  }

  close(): void {
    this.parts.constraints.close();
    this.backend.destroy();
  }
}

function factsOf({ config }: OpenModel, { info }: EngineParts): ModelFacts {
  const { name, width, vocabSize, rmsEps, logitScale, logitCap } = config;
  const numLayers = config.layers.length;
  const { feedForward } = config.layers.at(-1)!;
  // The trained head stores plain keys and values, also when the model uses latent attention.
  const latent = latentMixers(config).at(-1);
  const { numHeads, numKvHeads, headDim } =
    latent === undefined
      ? attentionMixers(config).at(-1)!
      : { numHeads: latent.numHeads, numKvHeads: latent.numHeads, headDim: latent.headDim + latent.ropeDim };
  const ffWidth = feedForward.kind === "dense" ? feedForward.width : Math.min(MODEL_LIMITS.ff, FF_FACTOR * width);
  const high = numLayers >= DEEP_LAYERS ? numLayers - 3 : numLayers - 1;
  const inputLayers = [Math.min(2, numLayers - 1), Math.floor(numLayers / 2), high];
  const heads = { numHeads, numKvHeads, headDim, ffWidth };
  const { maxModelLen: contextLength } = info;
  return { name, width, vocabSize, contextLength, rmsEps, ...heads, logitScale, logitCap, inputLayers };
}
