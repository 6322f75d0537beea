/** The prefix cache as its instance reports it, plus the blocks of requests that are on their way to it. */
import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { CacheIndex } from "./cache-index.js";

export class ExactIndex implements CacheIndex {
  /** Blocks of prompts under way, with the number of requests that contain each. */
  readonly #credited = new Map<number, number>();

  /** @param blocks returns the reported blocks; undefined while there is no report */
  constructor(private readonly blocks: () => CachedBlocks | undefined) {}

  get size(): number {
    return this.#credited.size + (this.blocks()?.size ?? 0);
  }

  /** Whether the instance reports its cache now, in blocks of this many tokens. */
  knows(blockSize: number): boolean {
    return this.blocks()?.blockSize === blockSize;
  }

  numMatched(keys: readonly number[]): number {
    return this.blocks()?.numUsable(keys, (key) => this.#credited.has(key)) ?? 0;
  }

  /** After the request's end, only the report counts: an instance reports stored blocks before it answers. */
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
