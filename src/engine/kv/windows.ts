/** What a sliding window sees of the past, in blocks. Window 0 sees everything. */
import type { PrefixNode } from "./prefix-index.js";

/** The first block that the query at `position`, or any later one, sees. */
export function firstSeenBlock(window: number, position: number, blockSize: number): number {
  return window === 0 ? 0 : Math.floor(Math.max(0, position + 1 - window) / blockSize);
}

/** Blocks that a sequence of `numTokens` tokens holds at once at most, when a step computes up to `maxStepTokens` of them. */
export function blocksAtOnce(window: number, numTokens: number, maxStepTokens: number, blockSize: number): number {
  const all = Math.ceil(numTokens / blockSize);
  if (window === 0) return all;
  // A step's first query sees window − 1 entries before its own; they may begin with a block's last entry.
  return Math.min(all, Math.ceil((window + maxStepTokens - 2) / blockSize) + 1);
}

/** How many of these nodes, which follow each other from the first block on, leave a sequence behind them with every block that it will see. */
export function countUsable(nodes: readonly PrefixNode[], windows: readonly number[], blockSize: number): number {
  /** Per group: how many blocks up to here are there without a gap. */
  const runs = new Array<number>(windows.length).fill(0);
  let numUsable = 0;
  for (let count = 1; count <= nodes.length; count++) {
    const { blocks } = nodes[count - 1]!;
    let isUsable = true;
    for (let group = 0; group < windows.length; group++) {
      runs[group] = blocks[group] === -1 ? 0 : runs[group]! + 1;
      const numSeen = count - firstSeenBlock(windows[group]!, count * blockSize, blockSize);
      isUsable &&= runs[group]! >= numSeen;
    }
    if (isUsable) numUsable = count;
  }
  return numUsable;
}
