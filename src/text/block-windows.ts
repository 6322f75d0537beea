/** The usable length of a cached prefix in models with sliding-window layers. Window 0 means full attention. */

/** The first block that the query at `position` or any later query attends to. */
export function firstSeenBlock(window: number, position: number, blockSize: number): number {
  return window === 0 ? 0 : Math.floor(Math.max(0, position + 1 - window) / blockSize);
}

/**
 * The largest number of leading blocks, up to `numBlocks`, after which a sequence still finds every block in its
 * windows.
 * @param windows per KV group
 * @param isThere whether the block of a KV group is cached
 */
export function countUsable(
  numBlocks: number,
  windows: readonly number[],
  blockSize: number,
  isThere: (block: number, group: number) => boolean,
): number {
  /** Per KV group: the number of consecutive cached blocks that end here. */
  const runs = new Array<number>(windows.length).fill(0);
  let numUsable = 0;
  for (let count = 1; count <= numBlocks; count++) {
    let isUsable = true;
    for (let group = 0; group < windows.length; group++) {
      const window = windows[group]!;
      runs[group] = isThere(count - 1, group) ? runs[group]! + 1 : 0;
      // A group with full attention can use no block after a gap.
      if (window === 0 && runs[group] === 0) return numUsable;
      isUsable &&= runs[group]! >= count - firstSeenBlock(window, count * blockSize, blockSize);
    }
    if (isUsable) numUsable = count;
  }
  return numUsable;
}
