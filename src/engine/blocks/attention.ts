/**
 * A layer's attention: stores keys and values of a step's rows, and adds the attention output of their queries to the
 * residual stream.
 */
import type { Backend } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { AttentionMixer } from "../../model/description/model-description.js";
import { attentionMixers, type ServableModel } from "../../model/description/servable.js";
import { gatesWidth, keyWidth, mostOf, queryWidth } from "../../model/description/sizes.js";
import type { LayerCounts } from "../memory/attention-counts.js";
import type { LayerCache } from "../memory/kv-caches.js";
import type { StepBatch } from "../step/step-batch.js";
import { constants } from "./constants.js";
import type { Rows } from "./last-rows.js";
import type { LayerMixer } from "./layer-mixer.js";
import { ADDED, type Products, recordNorm } from "./products.js";
import { addToResidual } from "./residual.js";
import type { RopeTable } from "./rope-tables.js";
import type { LayerWeights, NormWeights } from "./weights.js";

/** Scratch of a step's rows, f32, M = maxRows; all layers share it. */
export interface AttentionScratch {
  /** [M, width] */
  readonly normed: BufferHandle;
  /** [M, numHeads · headDim] */
  readonly query: BufferHandle;
  readonly attended: BufferHandle;
  /** [M, numKvHeads · headDim] */
  readonly key: BufferHandle;
  readonly value: BufferHandle;
  /** Gains of values' norm, f32 [headDim]; undefined: values are not normed */
  readonly ones: BufferHandle | undefined;
  /** i32 [M] slots that store nothing; undefined: every layer stores its keys and values as it rotates them */
  readonly noSlots: BufferHandle | undefined;
  /** [copies, numKvHeads · headDim] */
  readonly copiedKey: BufferHandle;
  readonly copiedValue: BufferHandle;
  /** [M, gates of a layer], or NO_BUFFER where no layer is gated */
  readonly gate: BufferHandle;
  /** undefined: no layer has gates of values */
  readonly split: SplitScratch | undefined;
}

/** For layers whose query matrix has rows of each head's query, then of its gates. */
interface SplitScratch {
  /** [M, numHeads, 2, headDim] */
  readonly both: BufferHandle;
  /** i32 [M, numHeads] each: vectors of `both` that are queries, and that are gates. */
  readonly queryRows: BufferHandle;
  readonly gateRows: BufferHandle;
}

/** @param normed [M, width], shared with the feed-forward part; @param maxCopies most rows that are stored twice */
export function allocateAttentionScratch(
  config: ServableModel,
  backend: Backend,
  maxRows: number,
  normed: BufferHandle,
  maxCopies: number,
): AttentionScratch {
  const copies = maxCopies * mostOf(config, keyWidth) * 4;
  const floats = (width: number) => backend.allocate(maxRows * width * 4);
  const mixers = attentionMixers(config);
  const mostValues = Math.max(0, ...mixers.map(({ headDim }) => headDim));
  const numGates = Math.max(0, ...mixers.map(gatesWidth));
  const onlyRotates = config.normsAfterRope || mixers.some(({ keysOf }) => keysOf !== undefined);
  return {
    normed,
    query: floats(mostOf(config, queryWidth)),
    attended: floats(mostOf(config, queryWidth)),
    key: floats(mostOf(config, keyWidth)),
    value: floats(mostOf(config, keyWidth)),
    ones: config.hasValueNorm ? constants(backend, new Float32Array(mostValues).fill(1)) : undefined,
    noSlots: onlyRotates ? constants(backend, new Int32Array(maxRows).fill(-1)) : undefined,
    copiedKey: backend.allocate(copies),
    copiedValue: backend.allocate(copies),
    gate: numGates > 0 ? floats(numGates) : NO_BUFFER,
    split: allocateSplitScratch(config, backend, maxRows),
  };
}

function allocateSplitScratch(config: ServableModel, backend: Backend, maxRows: number): SplitScratch | undefined {
  const mixer = attentionMixers(config).find(({ gates }) => gates === "values");
  if (mixer === undefined) return undefined;
  const { numHeads, headDim } = mixer;
  const numVectors = maxRows * numHeads;
  const everyOther = (first: number) =>
    constants(
      backend,
      Int32Array.from({ length: numVectors }, (_, i) => 2 * i + first),
    );
  return {
    both: backend.allocate(2 * numVectors * headDim * 4),
    queryRows: everyOther(0),
    gateRows: everyOther(1),
  };
}

/** A layer's stored keys and values, for a reader with its own queries. */
export interface LayerPast {
  readonly cache: LayerCache;
  /** i32 [sequences, tableStride] */
  readonly blockTables: BufferHandle;
  readonly tableStride: number;
  /** Window in tokens; 0 = full attention. */
  readonly window: number;
  /** Rotation of the stored keys. */
  readonly rope: Pick<RopeTable, "invFreq" | "half" | "magnitude">;
  readonly isNeox: boolean;
}

export class Attention implements LayerMixer {
  constructor(
    private readonly config: ServableModel,
    private readonly mixer: AttentionMixer,
    private readonly weights: LayerWeights,
    private readonly cache: LayerCache,
    private readonly rope: RopeTable,
    private readonly scratch: AttentionScratch,
    private readonly products: Products,
    private readonly counts: LayerCounts | undefined,
  ) {}

  /**
   * Records queries, keys and values of all rows, and stores keys and values, where the layer has its own.
   * @param hidden [numRows, width]
   */
  store(program: Program, hidden: BufferHandle, batch: StepBatch): void {
    const { width, rmsEps, isNeoxRope, normsAllHeads, normsAfterRope, queryScaling } = this.config;
    const { headDim, numHeads, numKvHeads } = this.mixer;
    const { attentionNorm, query, gate, key, value, besides, queryNorm, keyNorm } = this.weights;
    const { normed, query: q, gate: g, key: k, value: v, ones, noSlots } = this.scratch;
    const { numRows } = batch;
    const input = recordNorm(program, normed, hidden, numRows, { weights: attentionNorm, width, eps: rmsEps });
    const split = this.mixer.gates === "values" ? this.scratch.split : undefined;
    const projections = (from: Pick<LayerWeights, "query" | "gate" | "key" | "value">) =>
      [
        { out: split?.both ?? q, linear: from.query },
        { out: g, linear: from.gate },
        { out: k, linear: from.key },
        { out: v, linear: from.value },
      ].flatMap(({ out, linear }) => (linear === undefined ? [] : [{ out, linear }]));
    this.products.multiplyAll(program, projections({ query, gate, key, value }), input, numRows, width);
    if (besides !== undefined) {
      this.products.multiplyAll(program, projections(besides), besides.input, numRows, width, ADDED);
    }
    if (split !== undefined) {
      const { both: x, queryRows, gateRows } = split;
      const vectors = { x, numRows: numRows * numHeads, width: headDim };
      program.record("gatherRows", { ...vectors, out: q, rows: queryRows }, { concurrent: true });
      program.record("gatherRows", { ...vectors, out: g, rows: gateRows });
    }
    const headsNorm = (x: BufferHandle, weights: NormWeights | undefined, numHeads: number) => {
      const [perRow, normWidth] = normsAllHeads ? [1, numHeads * headDim] : [numHeads, headDim];
      recordNorm(program, x, x, numRows * perRow, { weights, width: normWidth, eps: rmsEps });
    };
    const hasKeys = key !== undefined;
    const { keys, values, shape, group } = this.cache;
    const cache = { keyCache: keys, valueCache: values, isNeox: isNeoxRope, ...shape };
    const rotated = { q, k, v, table: this.rope.table, numRows, half: this.rope.half, ...cache };
    if (normsAfterRope) program.record("ropeAndWriteKv", { ...rotated, slots: noSlots! });
    headsNorm(q, queryNorm, numHeads);
    if (hasKeys && ones !== undefined) {
      const x = value === undefined ? k : v;
      recordNorm(program, v, x, numRows * numKvHeads, { weights: { gain: ones }, width: headDim, eps: rmsEps });
    }
    headsNorm(k, keyNorm, numKvHeads);
    program.record("ropeAndWriteKv", {
      ...rotated,
      half: normsAfterRope ? 0 : rotated.half,
      slots: hasKeys ? batch.kvSlots[group]!.buffer : noSlots!,
    });
    if (batch.numKvCopies > 0 && hasKeys) {
      const copied = { numRows: batch.numKvCopies, rows: batch.kvCopyRows.buffer, width: numKvHeads * headDim };
      const { copiedKey, copiedValue } = this.scratch;
      program.record("gatherRows", { out: copiedKey, x: k, ...copied }, { concurrent: true });
      program.record("gatherRows", { out: copiedValue, x: v, ...copied });
      // The copied keys are rotated already (`half: 0`), so both copies have the same bits.
      program.record("ropeAndWriteKv", {
        q,
        k: copiedKey,
        v: copiedValue,
        table: this.rope.table,
        slots: batch.kvCopySlots[group]!.buffer,
        numRows: batch.numKvCopies,
        half: 0,
        ...cache,
      });
    }
    if (queryScaling === undefined) return;
    const positions = batch.positions.buffer;
    program.record("scaleByPosition", { x: q, positions, numRows, width: numHeads * headDim, ...queryScaling });
  }

  /** Records the counting of the observed rows' attention, where the layer evicts entries. Call after `store`. */
  observe(program: Program, batch: StepBatch): void {
    if (this.counts === undefined) return;
    recordCounts(program, batch, this.config, this.cache, this.scratch.query, this.counts, this.weights.sinks);
  }

  /** Call after `store`. @param rows all rows of the batch, or the rows that the layer still has to compute */
  attend(program: Program, batch: StepBatch, rows: Rows): void {
    const { width, rmsEps, residualScale } = this.config;
    const { headDim, numHeads, window, gates } = this.mixer;
    const { attended, normed } = this.scratch;
    const { numRows } = rows;
    recordPagedAttention(program, batch, rows, this.config, this.cache, attended, window, this.weights.sinks);
    if (gates !== undefined) {
      const headsWidth = numHeads * headDim;
      const shape =
        gates === "values"
          ? { numRows, width: headsWidth, gateWidth: headsWidth }
          : { numRows: numRows * numHeads, width: headDim, gateWidth: 1 };
      program.record("applyGate", { x: attended, gate: rows.gate, ...shape, kind: "sigmoid" });
    }
    const { attentionOutput, attentionPostNorm, attentionSumNorm } = this.weights;
    const residual = { normed, width, rmsEps, residualScale, postNorm: attentionPostNorm, sumNorm: attentionSumNorm };
    addToResidual(program, this.products, residual, rows, attended, numHeads * headDim, attentionOutput);
  }

  /** @param batch the batch of the layer's steps */
  past({ blockTables, capacity }: StepBatch): LayerPast {
    return {
      cache: this.cache,
      blockTables: blockTables[this.cache.group]!.buffer,
      tableStride: capacity.tableStride,
      window: this.mixer.window,
      rope: this.rope,
      isNeox: this.config.isNeoxRope,
    };
  }
}

/** Records the counting of the observed rows' attention. @param q of all rows */
export function recordCounts(
  program: Program,
  batch: StepBatch,
  { attentionScale, attentionCap }: ServableModel,
  { keys, shape, group }: LayerCache,
  q: BufferHandle,
  counts: LayerCounts,
  sinks?: BufferHandle,
): void {
  const operands = {
    ...counts,
    q,
    keyCache: keys,
    rows: batch.observedRows.buffer,
    kvLengths: batch.kvLengths[group]!.buffer,
    sequenceIndex: batch.sequenceIndex.buffer,
    blockTables: batch.blockTables[group]!.buffer,
    tableStride: batch.capacity.tableStride,
    numRows: batch.numObservedRows,
    scale: attentionScale,
    cap: attentionCap,
    sinks,
    ...shape,
  };
  program.record("countAttention", operands, { concurrent: true });
}

/** Records the attention of the rows' queries over the stored keys and values, into `out`. */
export function recordPagedAttention(
  program: Program,
  batch: StepBatch,
  { numRows, query, kvLengths, windowBegins, windowEnds, sequenceIndex }: Rows,
  { attentionScale, attentionCap, isCausal }: ServableModel,
  { keys, values, shape, group }: LayerCache,
  out: BufferHandle,
  window = 0,
  sinks?: BufferHandle,
): void {
  const seesBothSides = !isCausal && window > 0;
  program.record("pagedAttention", {
    out,
    q: query,
    keyCache: keys,
    valueCache: values,
    kvLengths: (seesBothSides ? windowEnds : kvLengths[group]!).buffer,
    sequenceIndex: sequenceIndex.buffer,
    blockTables: batch.blockTables[group]!.buffer,
    tableStride: batch.capacity.tableStride,
    numRows,
    scale: attentionScale,
    window: seesBothSides ? 0 : window,
    begins: seesBothSides ? windowBegins.buffer : NO_BUFFER,
    cap: attentionCap,
    sinks,
    ...shape,
  });
}
