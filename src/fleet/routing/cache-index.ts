/**
 * The contents of an instance's prefix cache as routing knows them: guessed (guessed-index.ts) or reported by the
 * instance (exact-index.ts).
 */
export interface CacheIndex {
  /** Length of the known prefix, in blocks. */
  numMatched(keys: readonly number[]): number;
  /**
   * Counts the blocks of a request that is under way as known, even before the instance has computed them.
   * @returns a function for the request's end, which takes back blocks that were known only because it was under way
   */
  credit(keys: readonly number[]): () => void;
  /** Number of keys in memory. */
  readonly size: number;
}
