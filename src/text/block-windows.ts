/** How much of a cached prefix can be used, where layers see only a window of the past. Window 0 sees everything. */

/** The first block that the query at `position`, or any later one, sees. */
export function firstSeenBlock(window: number, position: number, blockSize: number): number {
  return window === 0 ? 0 : Math.floor(Math.max(0, position + 1 - window) / blockSize);
}

/**
 * The most of the first `numBlocks` blocks after which a sequence still finds every block in its window.
 * @param windows per KV group
 * @param isThere whether a group's block is cached
 */
export function countUsable(
  numBlocks: number,
  windows: readonly number[],
  blockSize: number,
  isThere: (block: number, group: number) => boolean,
): number {
  /** Per group: how many blocks up to here are there without a gap. */
  const runs = new Array<number>(windows.length).fill(0);
  let numUsable = 0;
  for (let count = 1; count <= numBlocks; count++) {
    let isUsable = true;
    for (let group = 0; group < windows.length; group++) {
      const window = windows[group]!;
      runs[group] = isThere(count - 1, group) ? runs[group]! + 1 : 0;
      // What sees everything never gets over a gap.
      if (window === 0 && runs[group] === 0) return numUsable;
      isUsable &&= runs[group]! >= count - firstSeenBlock(window, count * blockSize, blockSize);
    }
    if (isUsable) numUsable = count;
  }
  return numUsable;
}
