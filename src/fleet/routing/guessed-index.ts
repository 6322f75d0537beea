/** What an instance's prefix cache probably holds: the blocks last sent there, as many as it has memory for, least recently used out first. */
import type { Capacity } from "../upstream/upstream.js";
import type { CacheIndex } from "./cache-index.js";

/** Where an engine does not say what it holds: half a million tokens in blocks of 32. */
const DEFAULT_BLOCKS = 16_384;
/** Removing in batches: looking for the oldest entry costs a walk over the holes that removed ones leave. */
const SLACK = 1 / 8;

export class GuessedIndex implements CacheIndex {
  /** Oldest use first. */
  readonly #keys = new Set<number>();

  constructor(public maxBlocks: number) {}

  get size(): number {
    return this.#keys.size;
  }

  /** How many blocks are known, counted from the first. */
  numMatched(keys: readonly number[]): number {
    let numMatched = 0;
    while (numMatched < keys.length && this.#keys.has(keys[numMatched]!)) numMatched++;
    return numMatched;
  }

  /** Tails first, so that a block is never older than one that hangs from it: what goes first is of use to nobody else. */
  add(keys: readonly number[]): void {
    for (let i = Math.min(keys.length, this.maxBlocks) - 1; i >= 0; i--) {
      const key = keys[i]!;
      this.#keys.delete(key);
      this.#keys.add(key);
    }
    if (this.#keys.size > this.maxBlocks * (1 + SLACK)) this.#shrink();
  }

  /** What was sent stays known until other things take its place. */
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

/** @param tokensPerBlock of the key source, not of the engine */
export function indexBlocks(capacity: Capacity, tokensPerBlock: number): number {
  if (capacity.kvTokens === undefined) return DEFAULT_BLOCKS;
  return Math.max(1, Math.floor(capacity.kvTokens / tokensPerBlock));
}
