/**
 * The contents of an instance's prefix cache, as routing knows them: guessed (guessed-index.ts) or reported by the
 * instance (exact-index.ts).
 */
export interface CacheIndex {
  /** Length of the known prefix, in blocks. */
  numMatched(keys: readonly number[]): number;
  /**
   * Counts the blocks of a request under way as known, even before the instance has computed them.
   * @returns a function for the request's end, which removes blocks that were known only through this request
   */
  credit(keys: readonly number[]): () => void;
  /** Number of keys in memory. */
  readonly size: number;
}
