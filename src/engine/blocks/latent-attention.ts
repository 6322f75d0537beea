/**
 * A layer's latent attention (MLA, arXiv 2405.04434) in its absorbed form: queries are brought to the width of what is
 * kept of a token, a rotated part of its keys that all heads share and a latent vector, and the weighted sums of latent
 * vectors become values of each head afterwards. So all heads read one entry, whose latent vector is key and value.
 *
 * Each head has matrices of its own, [kvRank, headDim] and [valueDim, kvRank]: the operations of experts multiply with
 * them, where head h of every row chose "expert" h.
 */
import type { Backend, ProductInputs } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { LatentMixer } from "../../model/description/model-description.js";
import { latentMixers, type ServableModel } from "../../model/description/servable.js";
import { latentWidth } from "../../model/description/sizes.js";
import type { LayerCounts } from "../memory/attention-counts.js";
import type { LayerCache } from "../memory/kv-caches.js";
import type { StepBatch } from "../step/step-batch.js";
import { type AttentionScratch, recordCounts, recordPagedAttention } from "./attention.js";
import type { LinearStack } from "./binder.js";
import { constants } from "./constants.js";
import type { Rows } from "./last-rows.js";
import type { LayerMixer } from "./layer-mixer.js";
import { type Products, recordNorm } from "./products.js";
import { addToResidual } from "./residual.js";
import type { RopeTable } from "./rope-tables.js";
import type { LatentWeights } from "./weights.js";

/** Scratch of a step's rows, M = maxRows, of H heads; all layers share it. */
interface LatentScratch extends AttentionScratch {
  /** f32 [M, queryRank] */
  readonly compressed: BufferHandle;
  /** f32 [M, H, headDim + ropeDim] */
  readonly headQueries: BufferHandle;
  /** f32 [M, kvRank] */
  readonly latent: BufferHandle;
  /** f32 [M, ropeDim] */
  readonly rotated: BufferHandle;
  /** f32 [M, H, headDim or valueDim]: inputs or outputs of the heads' matrices */
  readonly ofHeads: BufferHandle;
  /** f32 [H · M, kvRank or valueDim], head by head */
  readonly placed: BufferHandle;
  /** i32 [M, H]: head h of each row is h */
  readonly chosen: BufferHandle;
  /** i32 [M, H] and [H, 3], as `groupExperts` writes them */
  readonly places: BufferHandle;
  readonly groups: BufferHandle;
  readonly inputs: ProductInputs;
}

/** @returns undefined for a model without such layers */
export function allocateLatentScratch(
  config: ServableModel,
  backend: Backend,
  maxRows: number,
  ofAttention: AttentionScratch,
): LatentScratch | undefined {
  const mixers = latentMixers(config);
  if (mixers.length === 0) return undefined;
  const most = (of: (mixer: LatentMixer) => number) => Math.max(...mixers.map(of));
  const floats = (width: number) => backend.allocate(maxRows * width * 4);
  const numHeads = most((mixer) => mixer.numHeads);
  const length = maxRows * numHeads;
  return {
    ...ofAttention,
    compressed: floats(
      Math.max(
        1,
        most(({ queryRank }) => queryRank),
      ),
    ),
    headQueries: floats(numHeads * most(({ headDim, ropeDim }) => headDim + ropeDim)),
    latent: floats(most(({ kvRank }) => kvRank)),
    rotated: floats(most(({ ropeDim }) => ropeDim)),
    ofHeads: floats(numHeads * most(({ headDim, valueDim }) => Math.max(headDim, valueDim))),
    placed: floats(numHeads * most(({ kvRank, valueDim }) => Math.max(kvRank, valueDim))),
    chosen: constants(
      backend,
      Int32Array.from({ length }, (_, i) => i % numHeads),
    ),
    places: backend.allocate(length * 4),
    groups: backend.allocate(numHeads * 3 * 4),
    inputs: backend.productInputs(length),
  };
}

/** A layer's KV cache, rope table, scratch memory and products. */
interface LatentParts {
  readonly cache: LayerCache;
  readonly rope: RopeTable;
  readonly scratch: LatentScratch;
  readonly products: Products;
}

export class LatentAttention implements LayerMixer {
  constructor(
    private readonly config: ServableModel,
    private readonly mixer: LatentMixer,
    private readonly weights: LatentWeights,
    private readonly parts: LatentParts,
    private readonly counts: LayerCounts | undefined,
  ) {}

  /** Records queries and entries of all rows, and stores the entries. @param hidden [numRows, width] */
  store(program: Program, hidden: BufferHandle, batch: StepBatch): void {
    const { numRows } = batch;
    const { query, key, copiedKey } = this.parts.scratch;
    this.#recordProjections(program, hidden, numRows);
    this.#recordQueries(program, numRows);
    this.#recordEntries(program, numRows);
    const { group, keys, shape } = this.parts.cache;
    const { table, half } = this.parts.rope;
    const cache = { ...shape, q: query, keyCache: keys, valueCache: keys, isNeox: this.config.isNeoxRope, table };
    const write = (k: BufferHandle, slots: BufferHandle, count: number, turned: number) =>
      program.record("ropeAndWriteKv", { ...cache, k, v: k, slots, numRows: count, half: turned });
    write(key, batch.kvSlots[group]!.buffer, numRows, half);
    const { queryScaling } = this.config;
    if (queryScaling !== undefined) {
      const scaled = { x: query, numRows, width: this.mixer.numHeads * latentWidth(this.mixer), ...queryScaling };
      program.record("scaleByPosition", { ...scaled, positions: batch.positions.buffer });
    }
    if (batch.numKvCopies === 0) return;
    const copied = { numRows: batch.numKvCopies, width: latentWidth(this.mixer) };
    program.record("gatherRows", { out: copiedKey, x: key, rows: batch.kvCopyRows.buffer, ...copied });
    // The copied keys are rotated already, so both copies have the same bits.
    write(copiedKey, batch.kvCopySlots[group]!.buffer, batch.numKvCopies, 0);
  }

  /** The heads' queries, the latent vectors, and the keys' parts that will be rotated. */
  #recordProjections(program: Program, hidden: BufferHandle, numRows: number): void {
    const { width, rmsEps } = this.config;
    const { kvRank, queryRank } = this.mixer;
    const { norm, compression, query, latent, latentNorm, rotated } = this.weights;
    const { products, scratch } = this.parts;
    const input = recordNorm(program, scratch.normed, hidden, numRows, { weights: norm, width, eps: rmsEps });
    const first =
      compression === undefined
        ? { out: scratch.headQueries, linear: query }
        : { out: scratch.compressed, linear: compression.linear };
    const ofEntries = [
      { out: scratch.latent, linear: latent },
      { out: scratch.rotated, linear: rotated },
    ];
    products.multiplyAll(program, [first, ...ofEntries], input, numRows, width);
    if (compression !== undefined) {
      const { compressed, headQueries } = scratch;
      const normOf = { weights: compression.norm, width: queryRank, eps: rmsEps };
      recordNorm(program, compressed, compressed, numRows, normOf);
      products.multiply(program, headQueries, compressed, query, numRows, queryRank);
    }
    const normOf = { weights: latentNorm, width: kvRank, eps: rmsEps };
    recordNorm(program, scratch.latent, scratch.latent, numRows, normOf);
  }

  /** Each head's query: its part to be rotated, then its other part in the width of latent vectors. */
  #recordQueries(program: Program, numRows: number): void {
    const { numHeads, headDim, ropeDim, kvRank } = this.mixer;
    const { headQueries, ofHeads, query, placed, places } = this.parts.scratch;
    const numSlots = numRows * numHeads;
    const xWidth = headDim + ropeDim;
    const outWidth = latentWidth(this.mixer);
    copyColumns(program, numSlots, headDim, [headQueries, xWidth, 0], [ofHeads, headDim, 0]);
    this.#multiplyByHead(program, ofHeads, headDim, this.weights.keys, numRows);
    copyColumns(program, numSlots, kvRank, [placed, kvRank, 0], [query, outWidth, ropeDim], places);
    copyColumns(program, numSlots, ropeDim, [headQueries, xWidth, headDim], [query, outWidth, 0]);
  }

  #recordEntries(program: Program, numRows: number): void {
    const { ropeDim, kvRank } = this.mixer;
    const { key, latent, rotated } = this.parts.scratch;
    const outWidth = latentWidth(this.mixer);
    copyColumns(program, numRows, ropeDim, [rotated, ropeDim, 0], [key, outWidth, 0]);
    copyColumns(program, numRows, kvRank, [latent, kvRank, 0], [key, outWidth, ropeDim]);
  }

  /** placed [H · numRows, outputs] = x [numRows, H, cols] · matrixᵀ of each head, with `places` of the rows' heads. */
  #multiplyByHead(program: Program, x: BufferHandle, cols: number, { weights, biases }: LinearStack, numRows: number) {
    const { numHeads } = this.mixer;
    const { placed, chosen, places, groups, inputs } = this.parts.scratch;
    const numSlots = numRows * numHeads;
    const choice = { numRows, numExperts: numHeads, numChosen: numHeads };
    program.record("groupExperts", { groups, places, experts: chosen, ...choice });
    this.parts.products.measure(program, weights, x, numSlots, cols);
    const [input] = inputs.dispatch(program, x, [weights], { places, numRows: numSlots, numChosen: 1 }, cols);
    program.record("expertLinear", { out: placed, x: input!, weights, biases, groups, numSlots });
  }

  observe(program: Program, batch: StepBatch): void {
    const { cache, scratch } = this.parts;
    if (this.counts !== undefined) recordCounts(program, batch, this.config, cache, scratch.query, this.counts);
  }

  attend(program: Program, batch: StepBatch, rows: Rows): void {
    const { width, rmsEps, residualScale } = this.config;
    const { numHeads, valueDim, kvRank } = this.mixer;
    const { cache, scratch, products } = this.parts;
    const { attended, placed, places, ofHeads, normed } = scratch;
    const { numRows } = rows;
    recordPagedAttention(program, batch, rows, this.config, cache, attended);
    this.#multiplyByHead(program, attended, kvRank, this.weights.values, numRows);
    copyColumns(program, numRows * numHeads, valueDim, [placed, valueDim, 0], [ofHeads, valueDim, 0], places);
    const residual = { normed, width, rmsEps, residualScale, postNorm: undefined, sumNorm: undefined };
    addToResidual(program, products, residual, rows, ofHeads, numHeads * valueDim, this.weights.output);
  }
}

/** A matrix [rows, width], and a column of it. */
type Columns = readonly [matrix: BufferHandle, width: number, first: number];

/** Records that `width` columns are copied. @param rows those of the source, where it is not row by row */
function copyColumns(
  program: Program,
  numRows: number,
  width: number,
  [x, xWidth, from]: Columns,
  [out, outWidth, to]: Columns,
  rows?: BufferHandle,
): void {
  program.record("copyColumns", { out, x, rows, numRows, width, outWidth, to, xWidth, from });
}
