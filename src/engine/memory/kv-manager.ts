/**
 * Allocates KV blocks to sequences on demand, shares published prefixes, and releases blocks in an order that keeps the heads of prefixes cached
 * longest.
 */
import { countUsable, firstSeenBlock } from "../../text/block-windows.js";
import { BlockPool } from "./block-pool.js";
import { mainGroup } from "./groups.js";
import type { KvSequence } from "./kv-sequence.js";
import type { PrefixNode } from "./prefix-index.js";
import { PrefixIndex } from "./prefix-index.js";
import { blocksAtOnce } from "./windows.js";

interface KvManagerOptions {
  /** Per KV group: window in tokens; 0 = all entries are kept. */
  readonly windows: readonly number[];
  /** Per KV group. */
  readonly numBlocks: readonly number[];
  readonly blockSize: number;
  /** Most tokens of one sequence in a step. */
  readonly maxStepTokens: number;
  readonly isPrefixCachingEnabled: boolean;
  /** Tokens whose blocks are reserved at admission; 0 = on demand. */
  readonly reservedTokens: number;
}

/** A store that keeps published blocks beyond memory. */
interface BlockStore {
  /** Most blocks to restore in one step, since other sequences wait for it. */
  readonly blocksPerStep: number;
  has(parent: PrefixNode, tokens: Int32Array): boolean;
  /** Fills the blocks, one per group; false on failure. */
  restore(parent: PrefixNode, tokens: Int32Array, blocks: readonly number[]): boolean;
  onPublished(node: PrefixNode): void;
}

export class KvManager {
  readonly blockSize: number;
  readonly #pools: readonly BlockPool[];
  readonly #index: PrefixIndex;
  readonly #main: number;
  /** By key of a prompt block: the leader, an admitted sequence that is about to compute it and that others wait for. */
  readonly #leaders = new Map<number, KvSequence>();
  /** Set once, before the first sequence arrives. */
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

  /** Blocks of the main group in use by sequences. */
  get numUsedBlocks(): number {
    return this.usedBlocksOf(this.#main);
  }

  /** Blocks of the main group. */
  get numBlocks(): number {
    return this.#pools[this.#main]!.numBlocks;
  }

  /** The main group, and its window in tokens; 0 = none. */
  get main(): { readonly group: number; readonly window: number } {
    return { group: this.#main, window: this.options.windows[this.#main]! };
  }

  usedBlocksOf(group: number): number {
    const { numBlocks, numFree } = this.#pools[group]!;
    return numBlocks - numFree;
  }

  /** See PrefixIndex. */
  takeChanges(): Float64Array {
    return this.#index.takeChanges();
  }

  /**
   * True while another admitted sequence computes the first block that this one lacks: waiting is cheaper than computing it twice. A background sequence may
   * stand still for long, so only others of its kind wait for it.
   */
  shouldWaitForLeader(sequence: KvSequence): boolean {
    if (!this.#reads(sequence)) return false;
    const hits = this.#walk(sequence);
    const next = sequence.promptKeys[hits.length];
    const leader = next === undefined ? undefined : this.#leaders.get(next);
    return leader !== undefined && leader !== sequence && !goesBefore(sequence, leader);
  }

  /**
   * Attaches the cached blocks of the longest known prefix and sets numComputedTokens to its length. The last token is never taken from the cache,
   * since its logits are needed.
   */
  attachPrefix(sequence: KvSequence): void {
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
      const leader = this.#leaders.get(key);
      if (leader === undefined || goesBefore(sequence, leader)) this.#leaders.set(key, sequence);
    }
  }

  /** Resets the count of restored blocks: its limit is per step, for all sequences together. */
  beginStep(): void {
    this.#numRestored = 0;
  }

  /**
   * Restores the blocks after the computed ones from the store into free blocks, and publishes them.
   * @returns whether the store has a further block, for a later step
   */
  restore(sequence: KvSequence): boolean {
    const { store, blockSize } = this;
    if (store === undefined || !this.#reads(sequence)) return false;
    for (;;) {
      // Without a node of its last block, the sequence has no key to look up the next one.
      if (!sequence.isPublishing) return false;
      const start = sequence.numComputedTokens;
      // The last token is always computed, since its logits are needed.
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
      // Counts for a sequence with its first seat. Before admission, countFirstAdmission counts.
      if (sequence.seat >= 0 && sequence.numAdmissions === 1) this.#countHit(sequence, blockSize);
    }
  }

  /** Call at the first admission: counts the tokens that the cache saved. */
  countFirstAdmission(sequence: KvSequence): void {
    this.queriedTokens += sequence.numTokens;
    this.#countHit(sequence, sequence.numComputedTokens);
  }

  #countHit(sequence: KvSequence, numTokens: number): void {
    sequence.numCachedTokens += numTokens;
    this.hitTokens += numTokens;
  }

  /**
   * Do free blocks, and those freed when `departing` leave, suffice for all present tokens of the sequence?
   * @param promised per KV group: blocks reserved for other sequences
   */
  hasRoomFor(sequence: KvSequence, promised: readonly number[], departing: readonly KvSequence[] = []): boolean {
    return this.#pools.every((pool, group) => {
      const numFreed = numHeldAlone(departing, group, pool);
      return pool.numFree + numFreed - promised[group]! >= this.#numLacking(sequence, group);
    });
  }

  /** Per KV group: blocks that the sequences' present tokens need beyond those they hold. */
  promisedTo(sequences: readonly KvSequence[]): number[] {
    return this.#pools.map((_, group) =>
      sequences.reduce((sum, sequence) => sum + Math.max(0, this.#numLacking(sequence, group)), 0),
    );
  }

  #numLacking(sequence: KvSequence, group: number): number {
    const { windows, reservedTokens, maxStepTokens } = this.options;
    const numTokens = Math.max(sequence.numTokens, reservedTokens);
    const atOnce = blocksAtOnce(windows[group]!, numTokens, maxStepTokens, this.blockSize);
    // A window never needs more blocks than the sequence has left to compute.
    const numToCome = Math.ceil(numTokens / this.blockSize) - sequence.blockTables[group]!.length;
    return Math.min(atOnce - numHeld(sequence, group), numToCome);
  }

  /** Extends the block tables to `numTokens` tokens, all or nothing; false if memory is short. */
  ensureCapacity(sequence: KvSequence, numTokens: number): boolean {
    const wanted = Math.ceil(Math.max(numTokens, this.options.reservedTokens) / this.blockSize);
    const missing = wanted - sequence.blockTables[0]!.length;
    if (this.#pools.some((pool) => pool.numFree < missing)) return false;
    this.#pools.forEach((pool, group) => {
      for (let i = 0; i < missing; i++) sequence.blockTables[group]!.push(pool.allocate()!);
    });
    return true;
  }

  /** Publishes the blocks filled since the last call, and gives back blocks that no later query sees. */
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

  /** Gives all blocks back, tails first. The sequence can be admitted again. */
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

  /** The first block of a group that the query at `position` or any later query sees. */
  #firstSeen(group: number, position: number): number {
    return firstSeenBlock(this.options.windows[group]!, position, this.blockSize);
  }

  #reads(sequence: KvSequence): boolean {
    return this.options.isPrefixCachingEnabled && !sequence.needsEveryPosition;
  }

  #root(sequence: KvSequence): PrefixNode {
    return this.#index.root(sequence.cacheSalt);
  }

  /** Nodes of the longest cached prefix that leaves at least one token to compute. Blocks outside a window may be missing. */
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

  /** Computes the keys of the prompt's full blocks, which followers can use, once per sequence. */
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

/** Background sequences stand still while there are others. */
const goesBefore = (a: KvSequence, b: KvSequence): boolean => b.isBackground && !a.isBackground;

/** Number of blocks that only these sequences hold. */
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
