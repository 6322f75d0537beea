/** What an instance's prefix cache holds as it says itself, and what requests that are on their way to it will have put there. */
import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { CacheIndex } from "./cache-index.js";

export class ExactIndex implements CacheIndex {
  /** Blocks of prompts under way, with the number of requests that have them. */
  readonly #credited = new Map<number, number>();

  /** @param blocks undefined while nothing is heard of the instance */
  constructor(private readonly blocks: () => CachedBlocks | undefined) {}

  get size(): number {
    return this.#credited.size + (this.blocks()?.size ?? 0);
  }

  /** Whether it is known at this moment what blocks of so many tokens are cached. */
  knows(blockSize: number): boolean {
    return this.blocks()?.blockSize === blockSize;
  }

  numMatched(keys: readonly number[]): number {
    return this.blocks()?.numUsable(keys, (key) => this.#credited.has(key)) ?? 0;
  }

  /** Afterwards the instance's own word counts: it has said what it stored before it answered. */
  credit(keys: readonly number[]): () => void {
    for (const key of keys) this.#credited.set(key, (this.#credited.get(key) ?? 0) + 1);
    return () => {
      for (const key of keys) {
        const count = this.#credited.get(key)! - 1;
        if (count === 0) this.#credited.delete(key);
        else this.#credited.set(key, count);
      }
    };
  }
}
