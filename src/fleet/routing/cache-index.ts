/** What routing asks of an instance's prefix cache, whether it guesses (guessed-index.ts) or was told (exact-index.ts). */
export interface CacheIndex {
  /** How many blocks are known, counted from the first. */
  numMatched(keys: readonly number[]): number;
  /** A request with this prompt is under way: its blocks are known from now on, computed or not. @returns ends what only its being under way made known */
  credit(keys: readonly number[]): () => void;
  /** Keys in memory. */
  readonly size: number;
}
