/**
 * Which keys and values a sequence keeps when KV memory holds less than its text (opt-in). Entries are dropped in whole
 * blocks, by layer, at fixed points of the text: the prompt's end, and every INTERVAL tokens after it. No step computes
 * beyond a point, so the choice is a function of the sequence alone: chunks, neighbours, pre-emption and drafts change
 * nothing.
 *
 * Sources: StreamingLLM (arXiv 2309.17453) for sinks and window, SnapKV (2404.14469), ChunkKV (2502.00299), PyramidKV
 * (2406.02069). All of ours choose blocks, not tokens, and one set for all heads of a layer.
 */

import type { EvictionOptions } from "../api/kv-eviction.js";

/** Tokens between two points at which entries are dropped. */
const INTERVAL = 256;
/**
 * Number of queries before a point whose attention decides which entries stay. The entries of these tokens always stay.
 */
const NUM_OBSERVED = 32;
/** SnapKV averages the attention of neighbouring entries, so that the neighbours of a heavy entry stay with it. */
const POOLED_ENTRIES = 5;
/** PyramidKV: the last layer's budget as a share of the average; the first layer has the rest of twice the average. */
const PYRAMID_LEAST = 1 / 20;

/** The attention of the observed queries in one layer. */
export interface LayerAttention {
  /** By stored entry: sum of the weights over queries and heads, in a unit of its own. */
  readonly counts: Int32Array;
  /** Sum of the entropies over queries and heads, in a unit of its own. */
  readonly entropy: number;
}

export class Eviction {
  readonly #leastBlocks: number;

  constructor(
    readonly options: EvictionOptions,
    private readonly blockSize: number,
  ) {
    const numRecent = options.policy === "window" ? 1 : Math.ceil(NUM_OBSERVED / blockSize);
    // The first block has the attention sinks; recent tokens may begin within a block.
    this.#leastBlocks = 1 + numRecent + 1;
  }

  /** Queries before a point whose attention decides, at most. */
  readonly numObserved = NUM_OBSERVED;

  /** Whether the choice needs the attention of the queries before a point. */
  get isObserving(): boolean {
    return this.options.policy !== "window";
  }

  /** The first point after `position`. */
  nextPoint(numPromptTokens: number, position: number): number {
    if (position < numPromptTokens) return numPromptTokens;
    return numPromptTokens + INTERVAL * (Math.floor((position - numPromptTokens) / INTERVAL) + 1);
  }

  /** Are entries dropped once this many tokens are stored? */
  dropsAt(numPromptTokens: number, numTokens: number): boolean {
    const isPoint = numTokens >= numPromptTokens && (numTokens - numPromptTokens) % INTERVAL === 0;
    return isPoint && this.blocksKept(numTokens) < this.#blocksOf(numTokens);
  }

  /** The first position before the next point whose query's attention is counted; the point where none is. */
  firstObserved(numPromptTokens: number, position: number): number {
    const point = this.nextPoint(numPromptTokens, position);
    const isCounted = this.isObserving && this.dropsAt(numPromptTokens, point);
    return isCounted ? Math.max(0, point - NUM_OBSERVED) : point;
  }

  /**
   * Positions that a cached prefix may spare a sequence: its observed queries must be computed, and an answer's entries
   * depend on what was dropped.
   */
  mostCached(numPromptTokens: number): number {
    return this.firstObserved(numPromptTokens, 0);
  }

  /** Blocks that a layer keeps on average at a point. */
  blocksKept(numTokens: number): number {
    const { budget } = this.options;
    const tokens = "tokens" in budget ? budget.tokens : Math.ceil(budget.share * numTokens);
    return Math.min(this.#blocksOf(numTokens), Math.max(this.#leastBlocks, Math.floor(tokens / this.blockSize)));
  }

  /** Most blocks that a layer holds on average while a sequence grows to `numTokens` tokens. */
  mostBlocks(numPromptTokens: number, numTokens: number): number {
    if (numTokens <= numPromptTokens) return this.#blocksOf(numTokens);
    // More is kept of a longer text, so the last whole interval and the present one are the largest.
    const last = this.nextPoint(numPromptTokens, numTokens - 1) - INTERVAL;
    const grown = [last - INTERVAL, last]
      .filter((point) => point >= numPromptTokens)
      .map(
        (point) =>
          this.blocksKept(point) + Math.ceil((Math.min(numTokens, point + INTERVAL) - point) / this.blockSize) + 1,
      );
    return Math.min(this.#blocksOf(numTokens), Math.max(this.#blocksOf(numPromptTokens), ...grown));
  }

  /**
   * Chooses the blocks to keep at an eviction point.
   * @param numTokens stored so far, evicted ones included
   * @param numEntries by layer: entries stored now
   * @param observed by layer; empty where the policy does not observe
   * @returns by layer: indices of the blocks to keep, ascending
   */
  choose(numTokens: number, numEntries: readonly number[], observed: readonly LayerAttention[]): number[][] {
    const layers = numEntries.map((entries) => this.#bounds(entries));
    const total = Math.min(
      layers.length * this.blocksKept(numTokens),
      layers.reduce((sum, { numBlocks }) => sum + numBlocks, 0),
    );
    const budgets = shareOut(total, this.#weights(observed, layers.length), layers);
    const scores = observed.map(({ counts }) => this.#blockScores(counts));
    return layers.map((bounds, layer) => {
      if (!this.isObserving) return recentBlocks(bounds.numBlocks, budgets[layer]!);
      return heaviestBlocks(scores[layer]!, bounds, budgets[layer]!);
    });
  }

  #blocksOf(numTokens: number): number {
    return Math.ceil(numTokens / this.blockSize);
  }

  #bounds(numEntries: number): LayerBounds {
    const numBlocks = this.#blocksOf(numEntries);
    const recent = this.isObserving ? NUM_OBSERVED : 1;
    const firstRecent = Math.max(0, Math.floor((numEntries - recent) / this.blockSize));
    return { numBlocks, firstRecent, least: Math.min(numBlocks, numBlocks - firstRecent + 1) };
  }

  /** By layer: the weight to which its budget is proportional. */
  #weights(observed: readonly LayerAttention[], numLayers: number): number[] {
    const { policy } = this.options;
    if (policy === "entropy") return observed.map(({ entropy }) => Math.max(entropy, 1));
    if (policy !== "pyramidkv") return new Array<number>(numLayers).fill(1);
    const step = (2 - 2 * PYRAMID_LEAST) / Math.max(1, numLayers - 1);
    return Array.from({ length: numLayers }, (_, layer) => 2 - PYRAMID_LEAST - step * layer);
  }

  #blockScores(counts: Int32Array): Float64Array {
    const { blockSize } = this;
    const scores = new Float64Array(this.#blocksOf(counts.length));
    if (this.options.policy === "chunkkv") {
      counts.forEach((count, entry) => {
        scores[Math.floor(entry / blockSize)]! += count;
      });
      return scores;
    }
    // A block counts as much as its heaviest neighbourhood of entries.
    const half = (POOLED_ENTRIES - 1) / 2;
    let sum = 0;
    for (let entry = -half; entry < counts.length; entry++) {
      sum += (counts[entry + half] ?? 0) - (counts[entry - half - 1] ?? 0);
      if (entry < 0) continue;
      const block = Math.floor(entry / blockSize);
      scores[block] = Math.max(scores[block]!, sum);
    }
    return scores;
  }
}

interface LayerBounds {
  readonly numBlocks: number;
  /** The first block with a recent token: it stays, as those after it do. */
  readonly firstRecent: number;
  /** Blocks that stay whatever the budget. */
  readonly least: number;
}

/**
 * Shares `total` blocks out in proportion to the weights, between the layers' bounds (Sainte-Laguë's method of the
 * highest averages; of layers that are equal the first one comes first).
 */
function shareOut(total: number, weights: readonly number[], layers: readonly LayerBounds[]): number[] {
  const budgets = layers.map(({ least }) => least);
  let left = total - budgets.reduce((sum, budget) => sum + budget, 0);
  const average = (layer: number): number =>
    budgets[layer]! < layers[layer]!.numBlocks ? weights[layer]! / (2 * budgets[layer]! + 1) : Number.NEGATIVE_INFINITY;
  const averages = budgets.map((_, layer) => average(layer));
  for (; left > 0; left--) {
    const next = averages.indexOf(Math.max(...averages));
    budgets[next]!++;
    averages[next] = average(next);
  }
  return budgets;
}

/** The first block and the last ones. */
function recentBlocks(numBlocks: number, budget: number): number[] {
  return [0, ...range(Math.max(1, numBlocks - budget + 1), numBlocks)].slice(0, numBlocks);
}

/** The first block, the recent ones, and of the others those with the highest scores; of equal ones the later. */
function heaviestBlocks(
  scores: Float64Array,
  { numBlocks, firstRecent, least }: LayerBounds,
  budget: number,
): number[] {
  const others = range(1, firstRecent).sort((a, b) => scores[b]! - scores[a]! || b - a);
  const kept = new Set([0, ...others.slice(0, Math.max(0, budget - least)), ...range(firstRecent, numBlocks)]);
  return [...kept].sort((a, b) => a - b);
}

const range = (begin: number, end: number): number[] =>
  Array.from({ length: Math.max(0, end - begin) }, (_, i) => begin + i);
