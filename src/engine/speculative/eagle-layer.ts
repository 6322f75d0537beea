/**
 * The layer of EAGLE-style heads: a llama layer with queries only, which attend to the keys and values stored by one of
 * the model's layers.
 */
import type { BufferHandle } from "../../backend/handles.js";
import { gatedOperands, type Program } from "../../backend/program.js";
import type { LayerPast } from "../blocks/attention.js";
import type { Binder, Linear } from "../blocks/binder.js";
import { ADDED, type Products } from "../blocks/products.js";
import type { StepBatch } from "../step/step-batch.js";
import type { HeadsPlace } from "./heads-file.js";

interface EagleSizes {
  readonly width: number;
  /** Number and size of heads are those of the model's queries. */
  readonly queryWidth: number;
  readonly ffWidth: number;
  readonly rmsEps: number;
}

interface EagleWeights {
  readonly attentionNorm: BufferHandle;
  readonly query: Linear;
  readonly attentionOutput: Linear;
  readonly ffNorm: BufferHandle;
  readonly gate: Linear;
  readonly up: Linear;
  readonly down: Linear;
}

export function bindEagleLayer(binder: Binder, { width, queryWidth, ffWidth }: EagleSizes): EagleWeights {
  return {
    attentionNorm: binder.vector("eagle.attn_norm.weight", width),
    query: binder.linear("eagle.attn_q", queryWidth, width),
    attentionOutput: binder.linear("eagle.attn_output", width, queryWidth),
    ffNorm: binder.vector("eagle.ffn_norm.weight", width),
    gate: binder.linear("eagle.ffn_gate", ffWidth, width),
    up: binder.linear("eagle.ffn_up", ffWidth, width),
    down: binder.linear("eagle.ffn_down", width, ffWidth),
  };
}

export class EagleLayer {
  /** Scratch, f32 [maxRows, *]. */
  readonly #normed: BufferHandle;
  readonly #query: BufferHandle;
  readonly #attended: BufferHandle;
  readonly #gate: BufferHandle;
  readonly #up: BufferHandle;
  readonly #ropeTable: BufferHandle;
  /**
   * Stand-ins for keys and values: the operation that rotates queries also takes keys, and this layer has none to
   * store.
   */
  readonly #noKeys: BufferHandle;
  readonly #noSlots: BufferHandle;

  constructor(
    private readonly weights: EagleWeights,
    private readonly sizes: EagleSizes,
    private readonly past: LayerPast,
    private readonly products: Products,
    { backend, maxRows }: HeadsPlace,
  ) {
    const floats = (cols: number) => backend.allocate(maxRows * cols * 4);
    const { width, queryWidth, ffWidth } = sizes;
    this.#normed = floats(width);
    this.#query = floats(queryWidth);
    this.#attended = floats(queryWidth);
    this.#gate = floats(ffWidth);
    this.#up = floats(ffWidth);
    this.#ropeTable = floats(2 * past.rope.half);
    this.#noKeys = floats(past.cache.shape.numKvHeads * past.cache.shape.headDim);
    this.#noSlots = backend.allocate(maxRows * 4);
    backend.write(this.#noSlots, 0, new Int32Array(maxRows).fill(-1));
  }

  /**
   * hidden [rows, width] += attention over the entries that `kvLengths` and `sequenceIndex` let each row see, then +=
   * the feed-forward part.
   */
  record(program: Program, hidden: BufferHandle, batch: StepBatch): void {
    const { width, queryWidth, ffWidth, rmsEps } = this.sizes;
    const { numRows } = batch;
    const { query, attentionNorm, attentionOutput, ffNorm, gate, up, down } = this.weights;
    const norm = { out: this.#normed, x: hidden, numRows, width, eps: rmsEps };
    program.record("rmsNorm", { gain: attentionNorm, ...norm });
    this.products.multiply(program, this.#query, this.#normed, query, numRows, width);
    this.#attend(program, batch);
    this.products.multiply(program, hidden, this.#attended, attentionOutput, numRows, queryWidth, ADDED);
    program.record("rmsNorm", { gain: ffNorm, ...norm });
    const [toGate, toUp] = this.products.operands(program, this.#normed, [gate, up], numRows, width);
    program.record("gatedLinear", {
      out: this.#gate,
      scratch: this.#up,
      numRows,
      kind: "silu",
      ...gatedOperands(toGate!, toUp!),
    });
    this.products.multiply(program, hidden, this.#gate, down, numRows, ffWidth, ADDED);
  }

  #attend(program: Program, { positions, kvLengths, sequenceIndex, numRows }: StepBatch): void {
    const { rope, isNeox, blockTables, tableStride, window } = this.past;
    const { keys, values, shape } = this.past.cache;
    const { invFreq, half, magnitude } = rope;
    program.record("ropeTable", {
      out: this.#ropeTable,
      positions: positions.buffer,
      invFreq,
      numRows,
      half,
      magnitude,
    });
    program.record("ropeAndWriteKv", {
      q: this.#query,
      k: this.#noKeys,
      v: this.#noKeys,
      table: this.#ropeTable,
      keyCache: keys,
      valueCache: values,
      slots: this.#noSlots,
      numRows,
      half,
      isNeox,
      ...shape,
    });
    program.record("pagedAttention", {
      out: this.#attended,
      q: this.#query,
      keyCache: keys,
      valueCache: values,
      kvLengths: kvLengths[0]!.buffer,
      sequenceIndex: sequenceIndex.buffer,
      blockTables,
      tableStride,
      numRows,
      scale: 1 / Math.sqrt(shape.headDim),
      // A query of the model counts its own entry in the window; this layer's queries have none.
      window: window === 0 ? 0 : window - 1,
      ...shape,
    });
  }
}
