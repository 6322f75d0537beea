/**
 * The blocks that a prefix cache holds, reconstructed from its changes: an engine's main thread keeps one of its own thread's cache, and a gateway
 * one of each engine's. Blocks have the keys of block-hash.ts; which of its KV groups still hold a block are bits of a number, group g's being 2^g.
 */
import { countUsable } from "./block-windows.js";

/** Keys and the groups that hold them now, in turn; no group: the block is gone. */
export type BlockChanges = ArrayLike<number>;

export class CachedBlocks {
  readonly #groups = new Map<number, number>();

  /**
   * @param windows per KV group: the sliding window, 0 = everything is seen
   * @param revision number of changes applied
   * @param blocks everything there is, as changes to nothing
   */
  constructor(
    readonly windows: readonly number[],
    readonly blockSize: number,
    public revision = 0,
    blocks: BlockChanges = [],
  ) {
    this.#take(blocks);
  }

  get size(): number {
    return this.#groups.size;
  }

  apply(changes: BlockChanges): void {
    this.#take(changes);
    this.revision++;
  }

  #take(changes: BlockChanges): void {
    for (let i = 0; i + 1 < changes.length; i += 2) {
      if (changes[i + 1] === 0) this.#groups.delete(changes[i]!);
      else this.#groups.set(changes[i]!, changes[i + 1]!);
    }
  }

  /** Everything, as changes to nothing. */
  snapshot(): number[] {
    return [...this.#groups].flat();
  }

  /**
   * How many of a prompt's blocks a sequence would find.
   * @param keys of its blocks, from the first on
   * @param isExpected blocks that will be there, though they are not yet
   */
  numUsable(keys: readonly number[], isExpected: (key: number) => boolean): number {
    return countUsable(
      keys.length,
      this.windows,
      this.blockSize,
      (block, group) => ((this.#groups.get(keys[block]!) ?? 0) & (1 << group)) !== 0 || isExpected(keys[block]!),
    );
  }
}
