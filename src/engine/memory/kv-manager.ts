/** Gives sequences their KV blocks: allocation on demand, sharing of published prefixes, release in an order that keeps heads cached longest. */
import { countUsable, firstSeenBlock } from "../../text/block-windows.js";
import { BlockPool } from "./block-pool.js";
import { mainGroup } from "./groups.js";
import type { KvSequence } from "./kv-sequence.js";
import type { PrefixNode } from "./prefix-index.js";
import { PrefixIndex } from "./prefix-index.js";
import { blocksAtOnce } from "./windows.js";

interface KvManagerOptions {
  /** Per KV group; 0 = everything is kept. */
  readonly windows: readonly number[];
  /** Per KV group. */
  readonly numBlocks: readonly number[];
  readonly blockSize: number;
  /** Tokens of one sequence that a step may compute. */
  readonly maxStepTokens: number;
  readonly isPrefixCachingEnabled: boolean;
  /** Tokens to reserve blocks for at admission; 0 = on demand. */
  readonly reservedTokens: number;
}

/** Where published blocks are kept beyond memory. */
interface BlockStore {
  /** Blocks to bring back in one step at most: others wait for it. */
  readonly blocksPerStep: number;
  has(parent: PrefixNode, tokens: Int32Array): boolean;
  /** Fills the blocks (one per group); false when that failed. */
  restore(parent: PrefixNode, tokens: Int32Array, blocks: readonly number[]): boolean;
  onPublished(node: PrefixNode): void;
}

export class KvManager {
  readonly blockSize: number;
  readonly #pools: readonly BlockPool[];
  readonly #index: PrefixIndex;
  readonly #main: number;
  /** Keys of prompt blocks that an admitted sequence is about to compute, with that sequence: the leader others wait for. */
  readonly #leaders = new Map<number, KvSequence>();
  /** Set once, before the first sequence. */
  store: BlockStore | undefined;
  queriedTokens = 0;
  hitTokens = 0;
  #numRestored = 0;

  constructor(private readonly options: KvManagerOptions) {
    this.blockSize = options.blockSize;
    this.#index = new PrefixIndex(options.windows.length, options.blockSize);
    this.#pools = options.numBlocks.map(
      (numBlocks, group) => new BlockPool(numBlocks, (blockId) => this.#index.forget(group, blockId)),
    );
    this.#main = mainGroup(options.windows);
  }

  /** Blocks referenced by sequences, in the main group. */
  get numUsedBlocks(): number {
    return this.usedBlocksOf(this.#main);
  }

  /** Blocks of the main group. */
  get numBlocks(): number {
    return this.#pools[this.#main]!.numBlocks;
  }

  usedBlocksOf(group: number): number {
    const { numBlocks, numFree } = this.#pools[group]!;
    return numBlocks - numFree;
  }

  /** See PrefixIndex. */
  takeChanges(): Float64Array {
    return this.#index.takeChanges();
  }

  /** True while another admitted sequence is computing the first block this one misses: waiting for it is cheaper than computing it twice. */
  shouldWaitForLeader(sequence: KvSequence): boolean {
    if (!this.#reads(sequence)) return false;
    const hits = this.#walk(sequence);
    const next = sequence.promptKeys[hits.length];
    const leader = next === undefined ? undefined : this.#leaders.get(next);
    return leader !== undefined && leader !== sequence;
  }

  /**
   * Takes the sequence in: attaches the cached blocks of its longest known prefix and sets numComputedTokens behind it.
   * The last token is never taken from the cache, as its logits are needed.
   */
  attachPrefix(sequence: KvSequence): void {
    if (!this.options.isPrefixCachingEnabled) return;
    const hits = this.#reads(sequence) ? this.#walk(sequence) : [];
    sequence.numComputedTokens = hits.length * this.blockSize;
    this.#pools.forEach((pool, group) => {
      const firstSeen = this.#firstSeen(group, sequence.numComputedTokens);
      hits.forEach((node, block) => {
        const blockId = block < firstSeen ? -1 : node.blocks[group]!;
        if (blockId !== -1) pool.retain(blockId);
        sequence.blockTables[group]!.push(blockId);
      });
      sequence.numGivenBack[group] = firstSeen;
    });
    sequence.nodes.push(...hits);
    for (const key of sequence.promptKeys.slice(hits.length)) {
      if (!this.#leaders.has(key)) this.#leaders.set(key, sequence);
    }
  }

  /** What the store may bring back in the coming step is for all its sequences. */
  beginStep(): void {
    this.#numRestored = 0;
  }

  /**
   * Goes on behind what is computed with blocks from the store, into blocks that are free; publishes them.
   * @returns whether the store has the block behind these too, for another step
   */
  restore(sequence: KvSequence): boolean {
    const { store, blockSize } = this;
    if (store === undefined || !this.#reads(sequence)) return false;
    for (;;) {
      // One that cannot name its last block has no place behind which the store could know the next.
      if (!sequence.isPublishing) return false;
      const start = sequence.numComputedTokens;
      // The last token is always computed, as its logits are needed.
      if (start % blockSize !== 0 || start + blockSize > sequence.numTokens - 1) return false;
      const parent = sequence.nodes.at(-1) ?? this.#root(sequence);
      const tokens = sequence.tokens.subarray(start, start + blockSize);
      if (!store.has(parent, tokens)) return false;
      if (this.#numRestored === store.blocksPerStep) return true;
      if (!this.ensureCapacity(sequence, start + blockSize)) return false;
      const blocks = sequence.blockTables.map((table) => table[start / blockSize]!);
      this.#numRestored++;
      if (!store.restore(parent, tokens, blocks)) return false;
      sequence.numComputedTokens += blockSize;
      this.settle(sequence);
      // Of one that has its seat for the first time; until then countFirstAdmission will count it.
      if (sequence.seat >= 0 && sequence.numAdmissions === 1) this.#countHit(sequence, blockSize);
    }
  }

  /** The sequence was admitted for the first time: counts what the cache saved it. */
  countFirstAdmission(sequence: KvSequence): void {
    this.queriedTokens += sequence.numTokens;
    this.#countHit(sequence, sequence.numComputedTokens);
  }

  #countHit(sequence: KvSequence, numTokens: number): void {
    sequence.numCachedTokens += numTokens;
    this.hitTokens += numTokens;
  }

  /**
   * Could the sequence's present tokens all be computed with the blocks that are free, and those that nobody holds once `departing` are gone?
   * @param promised per KV group, blocks that others need first
   */
  hasRoomFor(sequence: KvSequence, promised: readonly number[], departing: readonly KvSequence[] = []): boolean {
    return this.#pools.every((pool, group) => {
      const numFreed = numHeldAlone(departing, group, pool);
      return pool.numFree + numFreed - promised[group]! >= this.#numLacking(sequence, group);
    });
  }

  /** Per KV group, the blocks that the sequences' present tokens need beyond those they hold. */
  promisedTo(sequences: readonly KvSequence[]): number[] {
    return this.#pools.map((_, group) =>
      sequences.reduce((sum, sequence) => sum + Math.max(0, this.#numLacking(sequence, group)), 0),
    );
  }

  #numLacking(sequence: KvSequence, group: number): number {
    const { windows, reservedTokens, maxStepTokens } = this.options;
    const numTokens = Math.max(sequence.numTokens, reservedTokens);
    const atOnce = blocksAtOnce(windows[group]!, numTokens, maxStepTokens, this.blockSize);
    // Of a window's blocks, no more than are still to come.
    const numToCome = Math.ceil(numTokens / this.blockSize) - sequence.blockTables[group]!.length;
    return Math.min(atOnce - numHeld(sequence, group), numToCome);
  }

  /** Makes the tables long enough for `numTokens` tokens; all or nothing. False when memory is short. */
  ensureCapacity(sequence: KvSequence, numTokens: number): boolean {
    const wanted = Math.ceil(Math.max(numTokens, this.options.reservedTokens) / this.blockSize);
    const missing = wanted - sequence.blockTables[0]!.length;
    if (this.#pools.some((pool) => pool.numFree < missing)) return false;
    this.#pools.forEach((pool, group) => {
      for (let i = 0; i < missing; i++) sequence.blockTables[group]!.push(pool.allocate()!);
    });
    return true;
  }

  /** Publishes the blocks that numComputedTokens has filled since the last call, and gives back those that no query to come sees. */
  settle(sequence: KvSequence): void {
    this.#publishFull(sequence);
    this.#pools.forEach((pool, group) => {
      const table = sequence.blockTables[group]!;
      const firstSeen = this.#firstSeen(group, sequence.numComputedTokens);
      for (let block = sequence.numGivenBack[group]!; block < firstSeen; block++) {
        pool.release(table[block]!);
        table[block] = -1;
        sequence.numGivenBack[group]!++;
      }
    });
  }

  #publishFull(sequence: KvSequence): void {
    if (!this.options.isPrefixCachingEnabled) return;
    const numFull = Math.floor(sequence.numComputedTokens / this.blockSize);
    while (sequence.isPublishing && sequence.nodes.length < numFull) {
      const block = sequence.nodes.length;
      const parent = sequence.nodes.at(-1) ?? this.#root(sequence);
      const ids = sequence.blockTables.map((table) => table[block]!);
      const node = this.#index.publish(parent, sequence.tokens, block * this.blockSize, ids);
      if (node === undefined) {
        sequence.isPublishing = false;
        this.#unleadAll(sequence);
        return;
      }
      sequence.nodes.push(node);
      this.store?.onPublished(node);
      this.#unlead(sequence, block);
    }
  }

  /** Gives all blocks back, tails first; the sequence can be admitted again afterwards. */
  release(sequence: KvSequence): void {
    this.#unleadAll(sequence);
    sequence.blockTables.forEach((table, group) => {
      const numGivenBack = sequence.numGivenBack[group]!;
      for (let i = table.length - 1; i >= numGivenBack; i--) this.#pools[group]!.release(table[i]!);
      table.length = 0;
      sequence.numGivenBack[group] = 0;
    });
    sequence.nodes.length = 0;
    sequence.numComputedTokens = 0;
    sequence.isPublishing = true;
  }

  /** The first block of a group that the query at `position`, or any later one, sees. */
  #firstSeen(group: number, position: number): number {
    return firstSeenBlock(this.options.windows[group]!, position, this.blockSize);
  }

  #reads(sequence: KvSequence): boolean {
    return this.options.isPrefixCachingEnabled && !sequence.needsEveryPosition;
  }

  #root(sequence: KvSequence): PrefixNode {
    return this.#index.root(sequence.cacheSalt);
  }

  /** Nodes of the longest cached prefix that leaves at least one token to compute; of a window, the blocks before it may be missing. */
  #walk(sequence: KvSequence): PrefixNode[] {
    const hits: PrefixNode[] = [];
    let parent = this.#root(sequence);
    this.#prepareKeys(sequence, parent);
    const numUsable = Math.floor((sequence.numTokens - 1) / this.blockSize);
    for (let block = 0; block < numUsable; block++) {
      const start = block * this.blockSize;
      const key = sequence.promptKeys[block] ?? this.#index.keyOf(parent.key, sequence.tokens, start);
      const node = this.#index.find(parent, key, sequence.tokens, start);
      if (node === undefined) break;
      hits.push(node);
      parent = node;
    }
    const isThere = (block: number, group: number) => hits[block]!.blocks[group] !== -1;
    return hits.slice(0, countUsable(hits.length, this.options.windows, this.blockSize, isThere));
  }

  /** Keys of the prompt's full blocks (those a follower could use), computed once per sequence. */
  #prepareKeys(sequence: KvSequence, root: PrefixNode): void {
    if (sequence.promptKeys.length > 0) return;
    const numBlocks = Math.floor((sequence.numPromptTokens - 1) / this.blockSize);
    let key = root.key;
    for (let block = 0; block < numBlocks; block++) {
      key = this.#index.keyOf(key, sequence.tokens, block * this.blockSize);
      sequence.promptKeys.push(key);
    }
  }

  #unleadAll(sequence: KvSequence): void {
    for (let block = 0; block < sequence.promptKeys.length; block++) this.#unlead(sequence, block);
  }

  #unlead(sequence: KvSequence, block: number): void {
    const key = sequence.promptKeys[block];
    if (key !== undefined && this.#leaders.get(key) === sequence) this.#leaders.delete(key);
  }
}

/** Blocks that only these sequences hold. */
function numHeldAlone(sequences: readonly KvSequence[], group: number, pool: BlockPool): number {
  const holders = new Map<number, number>();
  for (const { blockTables, numGivenBack } of sequences) {
    for (const blockId of blockTables[group]!.slice(numGivenBack[group])) {
      holders.set(blockId, (holders.get(blockId) ?? 0) + 1);
    }
  }
  return [...holders].filter(([blockId, count]) => pool.refCount(blockId) === count).length;
}

const numHeld = ({ blockTables, numGivenBack }: KvSequence, group: number): number =>
  blockTables[group]!.length - numGivenBack[group]!;
