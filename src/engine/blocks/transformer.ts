/** The forward pass of every supported architecture: records one step's operations and submits them together. */
import type { BufferHandle, Device } from "../../backend/device.js";
import type { ActivationFormat, KvType } from "../../backend/ops.js";
import { activationRowBytes } from "../../backend/packing.js";
import type { KvShape, SampleBuffers } from "../../backend/program.js";
import { kvEntryBytes, Program } from "../../backend/program.js";
import type { ModelConfig } from "../../model/config.js";
import { ropeFrequencies } from "../../model/rope.js";
import type { BlockMemory } from "../memory/disk-tier.js";
import type { KvGroupSpec } from "../memory/groups.js";
import type { StepBatch } from "../step-batch.js";
import { LastRows, type Rows } from "./last-rows.js";
import type { LayerWeights, Linear, ModelWeights } from "./weights.js";

export interface KvLayout {
  readonly kvType: KvType;
  readonly blockSize: number;
  /** Per group. */
  readonly numBlocks: readonly number[];
  readonly groups: readonly KvGroupSpec[];
  /** The context actually served; decides between short and long rope factors. */
  readonly maxModelLen: number;
}

/** Scratch tensors of a step, f32, M = capacity.maxRows, R = capacity.maxLogitRows. */
interface Scratch {
  /** [M, width] residual stream */
  readonly hidden: BufferHandle;
  /** [M, width] normed input of a sub-layer, or its output before a post-norm */
  readonly normed: BufferHandle;
  /** [M, numHeads · headDim] */
  readonly query: BufferHandle;
  readonly attended: BufferHandle;
  /** [M, numKvHeads · headDim] */
  readonly key: BufferHandle;
  readonly value: BufferHandle;
  /** [M, ffWidth] */
  readonly gate: BufferHandle;
  readonly room: BufferHandle;
  /** [R, width] */
  readonly selected: BufferHandle;
  /** [M, width] hidden states of the batch's hidden taps after the final norm */
  readonly tapped: BufferHandle;
  /** [R, vocabSize] */
  readonly logits: BufferHandle;
}

interface RopeTable {
  /** [M, half, 2] cosine and sine of this step's positions */
  readonly table: BufferHandle;
  /** [half] */
  readonly invFreq: BufferHandle;
  readonly half: number;
  readonly magnitude: number;
}

/** What a layer has stored of the past, for a reader with queries of its own. */
export interface LayerPast {
  readonly keys: BufferHandle;
  readonly values: BufferHandle;
  readonly shape: KvShape;
  /** i32 [seats, tableStride] */
  readonly blockTables: BufferHandle;
  readonly tableStride: number;
  readonly window: number;
  /** How its keys were rotated. */
  readonly rope: Pick<RopeTable, "invFreq" | "half" | "magnitude">;
  readonly isNeox: boolean;
}

/** Records what fills `hidden` [rows, width] before the first layer. @param variant that `forward` was called with */
export type InputRecorder = (program: Program, hidden: BufferHandle, batch: StepBatch, variant: number) => void;

/** Steps of decoding have few shapes, and have them again and again. */
const MAX_RECORDED = 32;

export class Transformer implements BlockMemory {
  #program = new Program();
  /** By shape, those used last at the end. All that changes between two steps of a shape lies in buffers. */
  readonly #recorded = new Map<string, Program>();
  #recordedSamples: SampleBuffers | undefined;
  readonly #scratch: Scratch;
  readonly #last: LastRows;
  readonly #tapped: Float32Array;
  readonly #logitValues: Float32Array;
  /** The inputs of the linear layers being computed, [M] rows in each format any layer needs. */
  readonly #quantized: ReadonlyMap<ActivationFormat, BufferHandle>;
  readonly #ropes: readonly RopeTable[];
  readonly #kvShape: KvShape;
  /** Per layer, as `ropeAndWriteKv` lays them out. */
  readonly #keyCaches: readonly BufferHandle[];
  readonly #valueCaches: readonly BufferHandle[];
  /** The KV group of each layer. */
  readonly #groupOfLayer: readonly number[];
  /** All layers' K and V as bytes, with the group of each. */
  readonly #caches: readonly { readonly group: number; readonly cache: BufferHandle }[];
  /** Of one layer's K or V. */
  readonly #layerBlockBytes: number;
  /** Of one block in all layers. */
  readonly blockBytes: number;

  constructor(
    private readonly config: ModelConfig,
    private readonly weights: ModelWeights,
    private readonly device: Device,
    kv: KvLayout,
    batch: StepBatch,
    /** The embeddings of the batch's tokens, unless given. */
    private readonly recordInput: InputRecorder = (program, hidden, { tokenIds, numRows }) => {
      const { embedding: weight } = weights;
      program.record("embed", { out: hidden, weight, ids: tokenIds.buffer, numRows, scale: config.embeddingScale });
    },
  ) {
    const { numKvHeads, headDim, numHeads } = config;
    this.#scratch = allocateScratch(config, device, batch);
    this.#last = new LastRows(config, device, batch.capacity.maxLogitRows);
    this.#tapped = new Float32Array(device.view(this.#scratch.tapped));
    this.#logitValues = new Float32Array(device.view(this.#scratch.logits));
    this.#quantized = allocateQuantized(config, weights, device, batch);
    this.#ropes = config.ropes.map((rope) => {
      const isLong = kv.maxModelLen > rope.originalContextLength;
      const byLength = isLong ? weights.ropeFactorsLong : weights.ropeFactorsShort;
      const { invFreq, magnitude } = ropeFrequencies(rope, byLength ?? weights.ropeFactors);
      const half = invFreq.length;
      const handle = device.allocate(invFreq.byteLength);
      new Float32Array(device.view(handle)).set(invFreq);
      return { table: device.allocate(batch.capacity.maxRows * half * 8), invFreq: handle, half, magnitude };
    });
    this.#kvShape = { kvType: kv.kvType, numHeads, numKvHeads, headDim, blockSize: kv.blockSize };
    this.#layerBlockBytes = kv.blockSize * numKvHeads * kvEntryBytes(kv.kvType, headDim);
    this.#groupOfLayer = config.layers.map((_, layer) => kv.groups.findIndex((group) => group.layers.includes(layer)));
    const allocateCaches = () =>
      this.#groupOfLayer.map((group) => device.allocate(kv.numBlocks[group]! * this.#layerBlockBytes));
    this.#keyCaches = allocateCaches();
    this.#valueCaches = allocateCaches();
    this.#caches = config.layers.flatMap((_, layer) =>
      [this.#keyCaches[layer]!, this.#valueCaches[layer]!].map((cache) => ({
        group: this.#groupOfLayer[layer]!,
        cache,
      })),
    );
    this.blockBytes = this.#layerBlockBytes * this.#caches.length;
  }

  copyOut(blocks: ArrayLike<number>, target: Uint8Array): void {
    const size = this.#layerBlockBytes;
    this.#caches.forEach(({ group, cache }, i) => {
      this.device.read(cache, blocks[group]! * size, target.subarray(i * size, (i + 1) * size));
    });
  }

  copyIn(blocks: ArrayLike<number>, source: Uint8Array): void {
    const size = this.#layerBlockBytes;
    this.#caches.forEach(({ group, cache }, i) => {
      this.device.write(cache, blocks[group]! * size, source.subarray(i * size, (i + 1) * size));
    });
  }

  /**
   * Computes the batch's rows, stores their keys and values, samples at the batch's logit rows and norms its tapped rows.
   * @param batch always the one that the transformer was made with; @param variant of the input, for its recorder
   */
  forward(batch: StepBatch, samples: SampleBuffers, variant = 0): void {
    const { numRows, numLogitRows, numHiddenTaps } = batch;
    const numLast = this.#last.layOut(batch);
    const shape = `${numRows} ${numLast} ${numLogitRows} ${numHiddenTaps} ${variant}`;
    if (samples !== this.#recordedSamples) this.#recorded.clear();
    this.#recordedSamples = samples;
    const known = this.#recorded.get(shape);
    this.#program = known ?? new Program();
    if (known === undefined) this.#record(batch, samples, variant, numLast);
    this.#recorded.delete(shape);
    this.#recorded.set(shape, this.#program);
    if (this.#recorded.size > MAX_RECORDED) this.#recorded.delete(this.#recorded.keys().next().value!);
    this.device.submit(this.#program.words, this.#program.numWords);
  }

  #record(batch: StepBatch, samples: SampleBuffers, variant: number, numLast: number): void {
    const program = this.#program;
    const { weights } = this;
    const { hidden, query } = this.#scratch;
    const { numRows } = batch;
    const positions = batch.positions.buffer;
    for (const { table, invFreq, half, magnitude } of this.#ropes) {
      const operands = { out: table, positions, invFreq, numRows, half, magnitude };
      program.record("ropeTable", operands, { concurrent: true });
    }
    this.recordInput(program, hidden, batch, variant);
    let rows: Rows = { ...batch, numRows, hidden, query };
    weights.layers.forEach((layer, index) => {
      this.#keysAndValues(layer, index, batch);
      // The last layer stores all keys and values, and goes on for what is read of it.
      if (index === weights.layers.length - 1 && numLast < numRows) rows = this.#last.gather(program, rows, numLast);
      if (rows.numRows === 0) return;
      this.#attention(layer, index, batch, rows);
      this.#feedForward(layer, rows);
    });
    if (batch.numLogitRows > 0) this.#logits(rows, batch.numLogitRows, samples);
    if (batch.numHiddenTaps > 0) this.#tap(rows, batch.numHiddenTaps);
  }

  get width(): number {
    return this.config.width;
  }

  /** @param batch that the transformer was made with */
  past(layer: number, batch: StepBatch): LayerPast {
    const { window, rope } = this.config.layers[layer]!;
    return {
      keys: this.#keyCaches[layer]!,
      values: this.#valueCaches[layer]!,
      shape: this.#kvShape,
      blockTables: batch.blockTables[this.#groupOfLayer[layer]!]!.buffer,
      tableStride: batch.capacity.tableStride,
      window,
      rope: this.#ropes[rope]!,
      isNeox: this.config.isNeoxRope,
    };
  }

  /** [*, width]: hidden states of the latest step's taps, until the next step. */
  get tapped(): BufferHandle {
    return this.#scratch.tapped;
  }

  /** [width]: hidden state of the latest step's tap `index`, until the next step. */
  tappedHidden(index: number): Float32Array {
    const { width } = this.config;
    return this.#tapped.subarray(index * width, (index + 1) * width);
  }

  /** [vocabSize]: logits of the latest step's row `index`, until the next step. */
  logitRow(index: number): Float32Array {
    const { vocabSize } = this.config;
    return this.#logitValues.subarray(index * vocabSize, (index + 1) * vocabSize);
  }

  /** The rows' keys and values, which are stored, and their queries. */
  #keysAndValues(layer: LayerWeights, index: number, batch: StepBatch): void {
    const { width, headDim, numHeads, numKvHeads } = this.config;
    const { hidden, normed, query, key, value } = this.#scratch;
    const { numRows } = batch;
    const rope = this.#ropes[this.config.layers[index]!.rope]!;
    const group = this.#groupOfLayer[index]!;
    this.#norm(normed, hidden, layer.attentionNorm, numRows, width);
    this.#quantize(normed, width, numRows, [layer.query, layer.key, layer.value]);
    this.#linear(query, normed, layer.query, numRows, { concurrent: true });
    this.#linear(key, normed, layer.key, numRows, { concurrent: true });
    this.#linear(value, normed, layer.value, numRows);
    if (layer.queryNorm !== undefined) this.#norm(query, query, layer.queryNorm, numRows * numHeads, headDim);
    if (layer.keyNorm !== undefined) this.#norm(key, key, layer.keyNorm, numRows * numKvHeads, headDim);
    this.#program.record("ropeAndWriteKv", {
      q: query,
      k: key,
      v: value,
      table: rope.table,
      keyCache: this.#keyCaches[index]!,
      valueCache: this.#valueCaches[index]!,
      slots: batch.kvSlots[group]!.buffer,
      numRows,
      half: rope.half,
      isNeox: this.config.isNeoxRope,
      ...this.#kvShape,
    });
  }

  #attention(layer: LayerWeights, index: number, batch: StepBatch, rows: Rows): void {
    const { headDim, numHeads } = this.config;
    const { attended } = this.#scratch;
    const { numRows, query, kvLengths, seats } = rows;
    const group = this.#groupOfLayer[index]!;
    this.#program.record("pagedAttention", {
      out: attended,
      q: query,
      keyCache: this.#keyCaches[index]!,
      valueCache: this.#valueCaches[index]!,
      kvLengths: kvLengths.buffer,
      sequenceIndex: seats.buffer,
      blockTables: batch.blockTables[group]!.buffer,
      tableStride: batch.capacity.tableStride,
      numRows,
      scale: this.config.attentionScale,
      window: this.config.layers[index]!.window,
      ...this.#kvShape,
    });
    this.#quantize(attended, numHeads * headDim, numRows, [layer.attentionOutput]);
    this.#addToResidual(attended, layer.attentionOutput, layer.attentionPostNorm, rows);
  }

  #feedForward(layer: LayerWeights, rows: Rows): void {
    const { width, ffWidth, activation } = this.config;
    const { normed, gate, room } = this.#scratch;
    const { hidden, numRows } = rows;
    this.#norm(normed, hidden, layer.ffNorm, numRows, width);
    this.#quantize(normed, width, numRows, [layer.gate, layer.up]);
    this.#program.record("gatedLinear", {
      out: gate,
      room,
      gateX: this.#inputOf(normed, layer.gate),
      gateWeight: layer.gate.weight,
      gateBias: layer.gate.bias,
      upX: this.#inputOf(normed, layer.up),
      upWeight: layer.up.weight,
      upBias: layer.up.bias,
      numRows,
      kind: activation,
    });
    this.#quantize(gate, ffWidth, numRows, [layer.down]);
    this.#addToResidual(gate, layer.down, layer.ffPostNorm, rows);
  }

  /** out[m] = x[m] over its root mean square, times gain; rows of `width`. */
  #norm(out: BufferHandle, x: BufferHandle, gain: BufferHandle, numRows: number, width: number): void {
    this.#program.record("rmsNorm", { out, x, gain, numRows, width, eps: this.config.rmsEps });
  }

  /** Brings x [M, width] into every format that `linears` take; they must be computed before the next quantize. */
  #quantize(x: BufferHandle, width: number, numRows: number, linears: readonly Linear[]): void {
    for (const format of new Set(linears.map((linear) => linear.activations))) {
      if (format === "f32") continue;
      this.#program.record("quantize", { out: this.#quantized.get(format)!, x, numRows, width, format });
    }
  }

  /** out = x · weightᵀ, where x was quantised before if the weight takes that. */
  #linear(
    out: BufferHandle,
    x: BufferHandle,
    linear: Linear,
    numRows: number,
    { accumulate = false, concurrent = false } = {},
  ): void {
    const { weight, bias } = linear;
    const operands = { out, x: this.#inputOf(x, linear), weight, bias, numRows, accumulate };
    this.#program.record("linear", operands, { concurrent });
  }

  /** x in the format that the weight takes. */
  #inputOf(x: BufferHandle, { activations }: Linear): BufferHandle {
    return this.#quantized.get(activations) ?? x;
  }

  /** hidden += [postNorm](x · weightᵀ) */
  #addToResidual(x: BufferHandle, linear: Linear, postNorm: BufferHandle | undefined, { hidden, numRows }: Rows): void {
    const { normed } = this.#scratch;
    const { width } = this.config;
    if (postNorm === undefined) {
      this.#linear(hidden, x, linear, numRows, { accumulate: true });
      return;
    }
    this.#linear(normed, x, linear, numRows);
    this.#norm(normed, normed, postNorm, numRows, width);
    this.#program.record("add", { out: hidden, x: normed, numRows, width });
  }

  #tap({ hidden, hiddenTaps }: Rows, numTaps: number): void {
    const { tapped } = this.#scratch;
    const { width } = this.config;
    this.#program.record("gatherRows", { out: tapped, x: hidden, rows: hiddenTaps.buffer, numRows: numTaps, width });
    this.#finalNorm(tapped, numTaps);
  }

  /** In place. */
  #finalNorm(x: BufferHandle, numRows: number): void {
    const { outputNorm } = this.weights;
    if (outputNorm !== undefined) this.#norm(x, x, outputNorm, numRows, this.config.width);
  }

  #logits({ hidden, logitRows }: Rows, numRows: number, samples: SampleBuffers): void {
    const program = this.#program;
    const { width, vocabSize } = this.config;
    const { selected, logits } = this.#scratch;
    program.record("gatherRows", { out: selected, x: hidden, rows: logitRows.buffer, numRows, width });
    this.#finalNorm(selected, numRows);
    this.#quantize(selected, width, numRows, [this.weights.output]);
    this.#linear(logits, selected, this.weights.output, numRows);
    program.record("sample", { logits, numRows, vocabSize, ...samples });
  }
}

function allocateQuantized(
  config: ModelConfig,
  weights: ModelWeights,
  device: Device,
  batch: StepBatch,
): ReadonlyMap<ActivationFormat, BufferHandle> {
  const inLayers = weights.layers.flatMap((layer) => {
    const { query, key, value, attentionOutput, gate, up, down } = layer;
    return [query, key, value, attentionOutput, gate, up, down].map((linear) => linear.activations);
  });
  const numRows = Math.max(batch.capacity.maxRows, batch.capacity.maxLogitRows);
  const widths = [config.width, config.numHeads * config.headDim, config.ffWidth];
  const buffers = new Map<ActivationFormat, BufferHandle>();
  for (const format of new Set([...inLayers, weights.output.activations])) {
    if (format === "f32") continue;
    const rowBytes = Math.max(...widths.map((width) => activationRowBytes(format, Math.ceil(width / 256) * 256)));
    buffers.set(format, device.allocate(numRows * rowBytes));
  }
  return buffers;
}

function allocateScratch(config: ModelConfig, device: Device, batch: StepBatch): Scratch {
  const { maxRows, maxLogitRows } = batch.capacity;
  const floats = (numRows: number, width: number) => device.allocate(numRows * width * 4);
  const queryWidth = config.numHeads * config.headDim;
  const kvWidth = config.numKvHeads * config.headDim;
  return {
    hidden: floats(maxRows, config.width),
    normed: floats(maxRows, config.width),
    query: floats(maxRows, queryWidth),
    attended: floats(maxRows, queryWidth),
    key: floats(maxRows, kvWidth),
    value: floats(maxRows, kvWidth),
    gate: floats(maxRows, config.ffWidth),
    room: floats(maxRows, config.ffWidth),
    selected: floats(maxLogitRows, config.width),
    tapped: floats(maxRows, config.width),
    logits: floats(maxLogitRows, config.vocabSize),
  };
}
