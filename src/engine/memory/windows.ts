/** Blocks within a sliding window. Window 0 is full attention. */

/**
 * A cached prefix of a model with recurrent layers needs the state behind its last token alone: a window of this token
 * and the next one, in place of entries.
 */
export const STATE_WINDOW = 2;

/**
 * Most blocks that a sequence of `numTokens` tokens holds at once, if a step computes up to `maxStepTokens` of them.
 */
export function blocksAtOnce(window: number, numTokens: number, maxStepTokens: number, blockSize: number): number {
  const all = Math.ceil(numTokens / blockSize);
  if (window === 0) return all;
  // A step's first query sees window − 1 entries before its own, which may begin at the last entry of a block.
  return Math.min(all, Math.ceil((window + maxStepTokens - 2) / blockSize) + 1);
}
