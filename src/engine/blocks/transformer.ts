/** The forward pass of every supported architecture: records one step's operations and submits them together. */
import type { Backend } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER } from "../../backend/handles.js";
import { Program, type SampleBuffers } from "../../backend/program.js";
import {
  type AttentionMixer,
  type ConvolutionMixer,
  type DeltaMixer,
  type LatentMixer,
  type MambaMixer,
  NO_ROPE,
} from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { AttentionCounts } from "../memory/attention-counts.js";
import type { KvCaches } from "../memory/kv-caches.js";
import type { RecurrentStates } from "../memory/recurrent-states.js";
import type { StepBatch } from "../step/step-batch.js";
import { Attention, allocateAttentionScratch, type LayerPast } from "./attention.js";
import type { Linear } from "./binder.js";
import { allocateDeltaScratch, DeltaNet } from "./delta-net.js";
import { Embedding } from "./embedding.js";
import { allocateExpertScratch, Experts } from "./experts.js";
import { allocateFeedForwardScratch, FeedForward } from "./feed-forward.js";
import { LastRows, type Rows } from "./last-rows.js";
import { allocateLatentScratch, LatentAttention } from "./latent-attention.js";
import { LayerInputs } from "./layer-inputs.js";
import { type LayerMixer, NO_MIXING } from "./layer-mixer.js";
import { allocateMambaScratch, Mamba } from "./mamba.js";
import { Output } from "./output.js";
import { Products } from "./products.js";
import { createRopeTables, type RopeTable, recordRopeTables } from "./rope-tables.js";
import { allocateConvolutionScratch, ShortConvolution } from "./short-convolution.js";
import {
  type AnyLayerWeights,
  isConvolutionLayer,
  isDeltaLayer,
  isLatentLayer,
  isMambaLayer,
  isMixerless,
  type LayerWeights,
  type ModelWeights,
} from "./weights.js";

/**
 * Records the operations that fill `hidden` [rows, width] before the first layer.
 * @param variant as passed to `forward`
 */
type InputRecorder = (program: Program, hidden: BufferHandle, batch: StepBatch, variant: number) => void;

interface TransformerParts {
  readonly config: ServableModel;
  readonly weights: ModelWeights;
  readonly backend: Backend;
  readonly caches: KvCaches;
  /** Absent: the model has no recurrent layers. */
  readonly states?: RecurrentStates | undefined;
  /** The batch of every step. */
  readonly batch: StepBatch;
  /** Where the attention of observed rows is counted; absent: no row is observed. */
  readonly attentionCounts?: AttentionCounts | undefined;
  /** The served context, in tokens. */
  readonly maxModelLen: number;
  /** Absent: the embeddings of the batch's tokens. */
  readonly recordInput?: InputRecorder;
  /** By variant: the output matrix; absent: that of the weights. */
  readonly outputs?: readonly Linear[];
  /** Taps keep hidden states as they are before the final norm; absent: as they are after it. */
  readonly tapsBeforeNorm?: boolean;
  /**
   * Rows that are read in a step, at most: the feed-forward part of a single layer computes no others; absent: all
   * rows may be.
   */
  readonly maxReadRows?: number;
}

interface Layer {
  readonly mixer: LayerMixer;
  /** undefined: the layer mixes tokens alone */
  readonly feedForward: FeedForward | Experts | undefined;
  readonly weights: AnyLayerWeights;
}

/** Programs kept: decoding repeats few shapes. */
const MAX_RECORDED = 32;

export class Transformer {
  /**
   * Programs by shape of the step, most recently used last. Steps of one shape differ only in the contents of buffers.
   */
  readonly #recorded = new Map<string, Program>();
  #recordedSamples: SampleBuffers | undefined;
  readonly #layers: readonly Layer[];
  readonly #ropes: readonly RopeTable[];
  readonly #embedding: Embedding;
  /** undefined: layers have no inputs of their own */
  readonly #layerInputs: LayerInputs | undefined;
  readonly #last: LastRows;
  readonly #output: Output;
  readonly #products: Products;
  /** [maxRows, width] residual stream */
  readonly #hidden: BufferHandle;
  /** By layer: copies of its input, behind the last one of the output; and the numbers of all rows. */
  readonly #captured = new Map<number, BufferHandle>();
  #allRows: BufferHandle | undefined;
  /** Layers that are computed. */
  #depth = Number.POSITIVE_INFINITY;
  /** Whether the next step keeps the inputs that `captureInputs` asked for. */
  isCapturing = true;
  /** [maxRows, numHeads · headDim] */
  readonly #query: BufferHandle;
  readonly #gate: BufferHandle;

  constructor(private readonly parts: TransformerParts) {
    const { config, weights, backend, caches, batch, maxModelLen } = parts;
    const { maxRows, maxLogitRows } = batch.capacity;
    const products = new Products(backend, Math.max(maxRows, maxLogitRows));
    this.#products = products;
    const normed = backend.allocate(maxRows * config.width * 4);
    const attentionScratch = allocateAttentionScratch(config, backend, maxRows, normed, batch.capacity.maxSeats);
    const maxFedRows = config.layers.length === 1 ? Math.min(parts.maxReadRows ?? maxRows, maxRows) : maxRows;
    const feedForwardScratch = allocateFeedForwardScratch(config, backend, maxFedRows, normed);
    const expertScratch = allocateExpertScratch(config, backend, maxFedRows, feedForwardScratch);
    const feedForwardOf = (layer: AnyLayerWeights) => {
      const { feedForward } = layer;
      if (feedForward === undefined) return undefined;
      return feedForward.kind === "experts"
        ? new Experts(config, feedForward, layer, expertScratch!, products)
        : new FeedForward(config, feedForward, layer, feedForwardScratch, products);
    };
    this.#hidden = backend.allocate(maxRows * config.width * 4);
    this.#query = attentionScratch.query;
    this.#gate = attentionScratch.gate;
    this.#ropes = createRopeTables(config, weights, backend, maxRows, maxModelLen);
    const deltaScratch = allocateDeltaScratch(config, weights, backend, maxRows, normed);
    const mambaScratch = allocateMambaScratch(config, backend, maxRows, normed);
    const convolutionScratch = allocateConvolutionScratch(config, backend, maxRows, normed);
    const latentScratch = allocateLatentScratch(config, backend, maxRows, attentionScratch);
    const attentionOf = (mixer: AttentionMixer, layer: LayerWeights, index: number) => {
      const table = mixer.rope === NO_ROPE ? { ...this.#ropes[0]!, half: 0 } : this.#ropes[mixer.rope]!;
      const counts = parts.attentionCounts?.ofLayer(index);
      return new Attention(config, mixer, layer, caches.layer(index), table, attentionScratch, products, counts);
    };
    const mixerOf = (layer: AnyLayerWeights, index: number): LayerMixer => {
      const { mixer } = config.layers[index]!;
      const state = () => parts.states!.layer(index);
      if (isLatentLayer(layer)) {
        const places = { cache: caches.layer(index), rope: this.#ropes[0]!, scratch: latentScratch!, products };
        const counts = parts.attentionCounts?.ofLayer(index);
        return new LatentAttention(config, mixer as LatentMixer, layer.latent, places, counts);
      }
      if (isDeltaLayer(layer)) {
        return new DeltaNet(config, mixer as DeltaMixer, layer.delta, state(), deltaScratch!, products);
      }
      if (isMixerless(layer)) return NO_MIXING;
      if (isMambaLayer(layer)) {
        return new Mamba(config, mixer as MambaMixer, layer.mamba, state(), mambaScratch!, products);
      }
      if (isConvolutionLayer(layer)) {
        const own = mixer as ConvolutionMixer;
        return new ShortConvolution(config, own, layer.convolution, state(), convolutionScratch!, products);
      }
      return attentionOf(mixer as AttentionMixer, layer, index);
    };
    this.#layers = weights.layers.map((layer, index) => ({
      mixer: mixerOf(layer, index),
      feedForward: feedForwardOf(layer),
      weights: layer,
    }));
    this.#embedding = new Embedding(config, weights, backend, maxRows);
    this.#layerInputs =
      weights.layerInputs && new LayerInputs(config, weights.layerInputs, backend, maxRows, products, normed);
    this.#last = new LastRows(config, backend, maxLogitRows, batch.capacity.numGroups);
    this.#output = new Output(config, weights, backend, batch.capacity, products, parts.tapsBeforeNorm !== true);
  }

  /**
   * Keeps the residual stream as it enters these layers, from the next step on, in steps with `isCapturing`. These
   * compute the last layer for all rows where its output is kept.
   * @param layers indices from 0 on; the number of layers stands for the last one's output, before the final norm
   * @returns for each layer a buffer f32 [maxRows, width] with the inputs of the latest step's rows, valid until the
   * next step
   */
  captureInputs(layers: readonly number[]): readonly BufferHandle[] {
    const { backend, batch } = this.parts;
    const { maxRows } = batch.capacity;
    if (this.#allRows === undefined) {
      this.#allRows = backend.allocate(maxRows * 4);
      backend.write(
        this.#allRows,
        0,
        Int32Array.from({ length: maxRows }, (_, row) => row),
      );
    }
    this.#recorded.clear();
    return layers.map((layer) => {
      const buffer = this.#captured.get(layer) ?? backend.allocate(maxRows * this.width * 4);
      this.#captured.set(layer, buffer);
      return buffer;
    });
  }

  /**
   * From the next step on, adds up inputs of products.
   * @param depth number of layers to compute: nothing is metered in the later ones
   */
  meterInputs(meters: Products["meters"], depth: number): void {
    this.#recorded.clear();
    this.#products.meters = meters;
    this.#depth = depth;
  }

  /**
   * Computes the batch's rows, stores their keys and values, samples at logit rows and norms tapped rows. The batch and
   * the sampler's inputs must not change until the promise resolves.
   * @param variant selects the input that `recordInput` records
   */
  forward(samples: SampleBuffers, variant = 0): Promise<void> {
    const { batch, backend } = this.parts;
    const { numRows, numLogitRows, numHiddenTaps } = batch;
    const keepsOutput = this.isCapturing && this.#captured.has(this.#layers.length);
    const numLast = keepsOutput ? numRows : this.#last.layOut(batch);
    const shape = `${numRows} ${numLast} ${numLogitRows} ${numHiddenTaps} ${batch.numKvCopies} ${batch.numObservedRows} ${variant} ${this.isCapturing}`;
    if (samples !== this.#recordedSamples) this.#recorded.clear();
    this.#recordedSamples = samples;
    const program = this.#recorded.get(shape) ?? this.#record(samples, variant, numLast);
    this.#recorded.delete(shape);
    this.#recorded.set(shape, program);
    if (this.#recorded.size > MAX_RECORDED) this.#recorded.delete(this.#recorded.keys().next().value!);
    return backend.submit(program);
  }

  #record(samples: SampleBuffers, variant: number, numLast: number): Program {
    const { batch, recordInput, outputs, weights } = this.parts;
    const { numRows, numLogitRows, numHiddenTaps } = batch;
    const program = new Program();
    const hidden = this.#hidden;
    recordRopeTables(program, this.#ropes, batch);
    if (recordInput !== undefined) recordInput(program, hidden, batch, variant);
    else this.#embedding.record(program, hidden, batch);
    this.#layerInputs?.record(program, hidden, batch);
    const layerInputs = this.#layerInputs?.inputs ?? NO_BUFFER;
    let rows: Rows = { ...batch, numRows, hidden, query: this.#query, gate: this.#gate, layerInputs };
    this.#layers.slice(0, this.#depth).forEach(({ mixer, feedForward, weights: layer }, index) => {
      this.#capture(program, index);
      mixer.store(program, hidden, batch);
      if (batch.numObservedRows > 0) mixer.observe(program, batch);
      // The last layer stores keys and values of all rows, then computes only the rows that are read.
      if (index === this.#layers.length - 1 && numLast < numRows) rows = this.#last.gather(program, rows, numLast);
      if (rows.numRows === 0) return;
      // Both parts read the same input: `store` computed the queries before the feed-forward changes `hidden`.
      if (this.parts.config.parallel !== undefined) feedForward?.record(program, rows);
      mixer.attend(program, batch, rows);
      if (this.parts.config.parallel === undefined) feedForward?.record(program, rows);
      if (layer.input !== undefined) this.#layerInputs!.add(program, rows, index, layer.input);
      const { scale = 1 } = layer;
      if (scale !== 1) {
        program.record("scaleAndCap", { x: rows.hidden, numRows: rows.numRows, width: this.width, scale });
      }
    });
    this.#capture(program, this.#layers.length);
    if (numLogitRows > 0) {
      this.#output.sample(program, rows, numLogitRows, samples, outputs?.[variant] ?? weights.output);
    }
    if (numHiddenTaps > 0) this.#output.tap(program, rows, numHiddenTaps);
    return program;
  }

  #capture(program: Program, layer: number): void {
    const out = this.isCapturing ? this.#captured.get(layer) : undefined;
    if (out === undefined) return;
    const operands = {
      out,
      x: this.#hidden,
      rows: this.#allRows!,
      numRows: this.parts.batch.numRows,
      width: this.width,
    };
    program.record("gatherRows", operands, { concurrent: true });
  }

  get width(): number {
    return this.parts.config.width;
  }

  past(layer: number): LayerPast {
    const { mixer } = this.#layers[layer]!;
    if (mixer instanceof Attention) return mixer.past(this.parts.batch);
    throw new Error(`expected attention in layer ${layer}, got another mixer`);
  }

  /** [*, width]: hidden states of the latest step's taps, until the next step. */
  get tapped(): BufferHandle {
    return this.#output.tapped;
  }

  /** Fetches the hidden states of the latest step's taps. */
  readTapped(): Promise<void> {
    return this.#output.readTapped(this.parts.batch.numHiddenTaps);
  }

  /** [width]: hidden state of tap `index`, as fetched last. */
  tappedHidden(index: number): Float32Array {
    return this.#output.tappedRow(index);
  }

  /** Fetches the logits of the latest step's row `index` into `target` [vocabSize]. */
  readLogits(index: number, target: Float32Array): Promise<void> {
    return this.#output.readLogits(index, target);
  }
}
