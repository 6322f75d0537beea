/**
 * The probable contents of an instance's prefix cache: the blocks last sent to it, as many as its memory holds, with
 * least-recently-used eviction.
 */
import type { Capacity } from "../upstream/upstream.js";
import type { CacheIndex } from "./cache-index.js";

/** For engines that report no capacity: half a million tokens in blocks of 32. */
const DEFAULT_BLOCKS = 16_384;
/** For engines that report more than machines have: keys of this many blocks take 0.1 GB. */
const MOST_BLOCKS = 1 << 21;
/**
 * Excess of entries over the limit before a batch is removed: each search for the oldest entry walks over the gaps that
 * removed entries leave.
 */
const SLACK = 1 / 8;

export class GuessedIndex implements CacheIndex {
  /** In order of use, least recent first. */
  readonly #keys = new Set<number>();

  constructor(public maxBlocks: number) {}

  get size(): number {
    return this.#keys.size;
  }

  /** Length of the known prefix, in blocks. */
  numMatched(keys: readonly number[]): number {
    let numMatched = 0;
    while (numMatched < keys.length && this.#keys.has(keys[numMatched]!)) numMatched++;
    return numMatched;
  }

  /**
   * Adds the last block first, so that a block is never older than its successors and eviction removes the ends of
   * prompts first.
   */
  add(keys: readonly number[]): void {
    for (let i = Math.min(keys.length, this.maxBlocks) - 1; i >= 0; i--) {
      const key = keys[i]!;
      this.#keys.delete(key);
      this.#keys.add(key);
    }
    if (this.#keys.size > this.maxBlocks * (1 + SLACK)) this.#shrink();
  }

  /** The blocks stay known after the request, until newer ones evict them. */
  credit(keys: readonly number[]): () => void {
    this.add(keys);
    return () => {};
  }

  clear(): void {
    this.#keys.clear();
  }

  #shrink(): void {
    for (const key of this.#keys) {
      if (this.#keys.size <= this.maxBlocks) return;
      this.#keys.delete(key);
    }
  }
}

/** @param tokensPerBlock block size of the key source, which may differ from the engine's */
export function indexBlocks(capacity: Capacity, tokensPerBlock: number): number {
  if (capacity.kvTokens === undefined) return DEFAULT_BLOCKS;
  return Math.min(MOST_BLOCKS, Math.max(1, Math.floor(capacity.kvTokens / tokensPerBlock)));
}
