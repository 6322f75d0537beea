/**
 * The blocks that a prefix cache holds, reconstructed from its changes. An engine's main thread mirrors its engine
 * thread's cache, and a gateway mirrors each engine's. Blocks have the keys of block-hash.ts. A bit mask says which KV
 * groups still hold a block; the bit of group g is 2^g.
 */
import { countUsable } from "./block-windows.js";

/** Keys alternate with the masks of the groups that hold them now; mask 0: the block has been evicted. */
export type BlockChanges = ArrayLike<number>;

export class CachedBlocks {
  readonly #groups = new Map<number, number>();

  /**
   * @param windows per KV group: the sliding window, 0 = full attention
   * @param revision number of changes applied
   * @param blocks all blocks, as changes to an empty cache
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

  /** @param groups that hold the block now, as bits; 0: it is gone */
  change(key: number, groups: number): void {
    if (groups === 0) this.#groups.delete(key);
    else this.#groups.set(key, groups);
  }

  #take(changes: BlockChanges): void {
    for (let i = 0; i + 1 < changes.length; i += 2) this.change(changes[i]!, changes[i + 1]!);
  }

  /** All blocks, as changes to an empty cache. */
  snapshot(): number[] {
    return [...this.#groups].flat();
  }

  /**
   * The number of a prompt's leading blocks that a sequence would find cached.
   * @param keys the keys of the prompt's blocks, in order
   * @param isExpected whether a missing block will soon be cached
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
