/** What a sliding window holds of the past, in blocks. Window 0 sees everything. */

/** Blocks that a sequence of `numTokens` tokens holds at once at most, when a step computes up to `maxStepTokens` of them. */
export function blocksAtOnce(window: number, numTokens: number, maxStepTokens: number, blockSize: number): number {
  const all = Math.ceil(numTokens / blockSize);
  if (window === 0) return all;
  // A step's first query sees window − 1 entries before its own; they may begin with a block's last entry.
  return Math.min(all, Math.ceil((window + maxStepTokens - 2) / blockSize) + 1);
}
