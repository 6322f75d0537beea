/**
 * KV groups: layers that keep the same entries share one table per sequence. Groups of one window width (0: full
 * attention) share a block pool: they are one group, unless entries are evicted by layer. Layers that read the keys and
 * values of another keep nothing and are in no group. Encoders keep nothing beyond a step: all their layers are one
 * group.
 */

import { MillraceError } from "../../core/errors.js";
import { isStoring, type ServableLayer, type ServableModel, windowOf } from "../../model/description/servable.js";
import { tokenKvBytes, type VectorBytes } from "../../model/description/sizes.js";
import { blocksAtOnce } from "./windows.js";

export interface KvGroupSpec {
  /** 0 = all entries are kept. */
  readonly window: number;
  /** Indices of the model's layers, ascending. */
  readonly layers: readonly number[];
  /**
   * Index of the block pool that the group takes its blocks from. In a shared pool, a block holds entries of one layer.
   */
  readonly pool: number;
}

/**
 * @param length longest sequence: a window at least as wide is full attention
 * @param isSplit each layer with full attention is a group of its own, since it evicts entries of its own choice
 */
export function kvGroups(config: ServableModel, length: number, isSplit = false): readonly KvGroupSpec[] {
  if (!config.isCausal) return [{ window: 0, layers: config.layers.map((_, index) => index), pool: 0 }];
  const servedWindow = (layer: ServableLayer) => (windowOf(layer) < length ? windowOf(layer) : 0);
  // Recurrent layers keep no entries.
  const storing = config.layers.flatMap((layer, index) =>
    isStoring(layer) ? [{ index, window: servedWindow(layer) }] : [],
  );
  const windows = [...new Set(storing.map(({ window }) => window))].sort((a, b) => a - b);
  return windows.flatMap((window, pool) => {
    const layers = storing.filter((each) => each.window === window).map(({ index }) => index);
    if (!isSplit || window > 0) return [{ window, layers, pool }];
    return layers.map((layer) => ({ window, layers: [layer], pool }));
  });
}

/**
 * Bytes that one token leaves in the layers of each group.
 * @param draftLayers have entries beside those of the main group
 */
export function groupEntryBytes(
  { layers }: Pick<ServableModel, "layers">,
  groups: readonly KvGroupSpec[],
  vectorBytes: VectorBytes,
  draftLayers: ServableModel["layers"] = [],
): readonly number[] {
  const main = mainGroup(groups.map(({ window }) => window));
  return groups.map((group, index) => {
    const own = group.layers.map((layer) => layers[layer]!);
    return tokenKvBytes({ layers: index === main ? [...own, ...draftLayers] : own }, vectorBytes);
  });
}

/** Blocks in each pool. @param numBlocks each group's share of its pool */
export function poolSizes(numBlocks: readonly number[], pools: readonly number[]): number[] {
  const sizes = new Array<number>(Math.max(...pools) + 1).fill(0);
  pools.forEach((pool, group) => {
    sizes[pool]! += numBlocks[group]!;
  });
  return sizes;
}

/**
 * The group whose blocks limit the length of a sequence: full attention if any layer has it, else the widest window.
 */
export function mainGroup(windows: readonly number[]): number {
  return windows.includes(0) ? windows.indexOf(0) : windows.indexOf(Math.max(...windows));
}

/** The largest load of the engine. */
export interface KvDemand {
  readonly maxNumSeqs: number;
  readonly maxModelLen: number;
  readonly maxNumBatchedTokens: number;
}

/** The budget of an encoder: the entries of one step, which each layer overwrites in turn. */
export function encoderKvBudget(entryBytes: number, blockSize: number, demand: KvDemand): KvBudget {
  const numBlocks = Math.ceil(demand.maxNumBatchedTokens / blockSize) + demand.maxNumSeqs;
  return { numBlocks: [numBlocks], kvBytes: numBlocks * blockSize * entryBytes };
}

export interface KvBudget {
  /** Each group's share of the blocks of its pool. */
  readonly numBlocks: readonly number[];
  readonly kvBytes: number;
}

/**
 * Where memory is short: blocks of a window as a share of those of full attention. Sequences four windows long fill
 * both.
 */
const WINDOW_SHARE = 1 / 4;
/** Factor on the blocks that all running sequences need: the other half keeps cached prefixes. */
const CACHE_FACTOR = 2;

/**
 * Plans the number of blocks of each group. Without an explicit size: enough for every seat at full length, but at most
 * a quarter of the free memory. A window always gets enough blocks to compute alone any sequence that fits the main
 * group.
 * @param entryBytes by group, as `groupEntryBytes` has them
 * @param explicitBytes the size that the user asked for, or undefined
 */
export function planKvBudget(
  groups: readonly KvGroupSpec[],
  entryBytes: readonly number[],
  blockSize: number,
  demand: KvDemand,
  freeBytes: number,
  explicitBytes: number | undefined,
): KvBudget {
  const main = mainGroup(groups.map(({ window }) => window));
  const blocksBeside = (numMain: number) =>
    groups.map(({ pool, window }) =>
      pool === groups[main]!.pool ? numMain : windowBlocks(window, numMain, blockSize, demand),
    );
  const bytesBeside = (numMain: number) =>
    blocksBeside(numMain).reduce((sum, count, group) => sum + count * entryBytes[group]! * blockSize, 0);

  const wanted = Math.ceil(demand.maxModelLen / blockSize) * demand.maxNumSeqs;
  const bytes = explicitBytes ?? Math.min(bytesBeside(wanted), Math.floor(Math.max(0, freeBytes) / 4));
  // Binary search for the most blocks that fit: bytes grow with blocks.
  let numMain = 0;
  const most = bytes / (entryBytes[main]! * blockSize);
  for (let step = 2 ** Math.ceil(Math.log2(most + 1)); step >= 1; step /= 2) {
    if (bytesBeside(numMain + step) <= bytes) numMain += step;
  }
  if (numMain < 1) {
    const source = explicitBytes === undefined ? ", a quarter of what is free beside the weights" : "";
    throw new MillraceError(
      "invalid_option",
      `expected KV memory for at least one block of ${blockSize} tokens (${bytesBeside(1)} bytes), got ${bytes} bytes${source}`,
      { hint: "Raise --kv-cache-memory-bytes, lower --block-size, or take a smaller model." },
    );
  }
  return { numBlocks: blocksBeside(numMain), kvBytes: bytesBeside(numMain) };
}

/** Blocks of a window's pool, for `numMain` blocks of the main group. */
function windowBlocks(window: number, numMain: number, blockSize: number, demand: KvDemand): number {
  const { maxNumSeqs, maxModelLen, maxNumBatchedTokens } = demand;
  const ofOne = blocksAtOnce(window, maxModelLen, maxNumBatchedTokens, blockSize);
  const decoding = blocksAtOnce(window, maxModelLen, 1, blockSize);
  const ofAll = CACHE_FACTOR * (maxNumSeqs * decoding + Math.ceil(maxNumBatchedTokens / blockSize));
  const share = Math.max(WINDOW_SHARE, decoding / Math.ceil(maxModelLen / blockSize));
  return Math.min(numMain, Math.max(ofOne, Math.min(ofAll, Math.ceil(numMain * share))));
}
