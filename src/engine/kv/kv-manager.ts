/** Gives sequences their KV blocks: allocation on demand, sharing of published prefixes, release in an order that keeps heads cached longest. */
import type { Sequence } from "../sequence.js";
import { BlockPool } from "./block-pool.js";
import type { PrefixNode } from "./prefix-index.js";
import { PrefixIndex } from "./prefix-index.js";

export interface KvManagerOptions {
  readonly numGroups: number;
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly isPrefixCachingEnabled: boolean;
  /** Tokens to reserve blocks for at admission; 0 = on demand. */
  readonly reservedTokens: number;
}

/** Where published blocks are kept beyond memory. */
export interface BlockStore {
  /** Blocks to bring back for one sequence in one step at most. */
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
  /** Keys of prompt blocks that an admitted sequence is about to compute, with that sequence: the leader others wait for. */
  readonly #leaders = new Map<number, Sequence>();
  /** Set once, before the first sequence. */
  store: BlockStore | undefined;
  queriedTokens = 0;
  hitTokens = 0;

  constructor(private readonly options: KvManagerOptions) {
    this.blockSize = options.blockSize;
    this.#index = new PrefixIndex(options.numGroups, options.blockSize);
    this.#pools = Array.from(
      { length: options.numGroups },
      (_, group) => new BlockPool(options.numBlocks, (blockId) => this.#index.forget(group, blockId)),
    );
  }

  /** Blocks referenced by sequences, in the fullest group. */
  get numUsedBlocks(): number {
    return this.options.numBlocks - this.numFreeBlocks;
  }

  get numFreeBlocks(): number {
    return Math.min(...this.#pools.map((pool) => pool.numFree));
  }

  get numBlocks(): number {
    return this.options.numBlocks;
  }

  blocksFor(numTokens: number): number {
    return Math.ceil(numTokens / this.blockSize);
  }

  /** True while another admitted sequence is computing the first block this one misses: waiting for it is cheaper than computing it twice. */
  shouldWaitForLeader(sequence: Sequence): boolean {
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
  attachPrefix(sequence: Sequence): void {
    if (!this.options.isPrefixCachingEnabled) return;
    const hits = this.#reads(sequence) ? this.#walk(sequence) : [];
    for (const node of hits) {
      for (let group = 0; group < this.#pools.length; group++) {
        const blockId = node.blocks[group]!;
        this.#pools[group]!.retain(blockId);
        sequence.blockTables[group]!.push(blockId);
      }
      sequence.nodes.push(node);
    }
    sequence.numComputedTokens = hits.length * this.blockSize;
    for (const key of sequence.promptKeys.slice(hits.length)) {
      if (!this.#leaders.has(key)) this.#leaders.set(key, sequence);
    }
  }

  /** Goes on behind what is computed with blocks from the store, into blocks that are free; publishes them. */
  restore(sequence: Sequence): void {
    const { store, blockSize } = this;
    if (store === undefined || !this.#reads(sequence) || !sequence.isPublishing) return;
    for (let n = 0; n < store.blocksPerStep; n++) {
      const start = sequence.numComputedTokens;
      // The last token is always computed, as its logits are needed.
      if (start % blockSize !== 0 || start + blockSize > sequence.numTokens - 1) return;
      const parent = sequence.nodes.at(-1) ?? this.#root(sequence);
      const tokens = sequence.tokens.subarray(start, start + blockSize);
      if (!store.has(parent, tokens) || !this.ensureCapacity(sequence, start + blockSize)) return;
      const blocks = sequence.blockTables.map((table) => table[start / blockSize]!);
      if (!store.restore(parent, tokens, blocks)) return;
      sequence.numComputedTokens += blockSize;
      this.publishFull(sequence);
    }
  }

  /** The sequence was admitted for the first time: counts what the cache saved it. */
  countFirstAdmission(sequence: Sequence): void {
    sequence.numCachedTokens = sequence.numComputedTokens;
    this.queriedTokens += sequence.numTokens;
    this.hitTokens += sequence.numComputedTokens;
  }

  /** Could the tables be made long enough for `numTokens` tokens now? */
  hasRoomFor(sequence: Sequence, numTokens: number): boolean {
    const missing = this.#missingBlocks(sequence, numTokens);
    return this.#pools.every((pool) => pool.numFree >= missing);
  }

  /** Makes the tables long enough for `numTokens` tokens; all or nothing. False when memory is short. */
  ensureCapacity(sequence: Sequence, numTokens: number): boolean {
    if (!this.hasRoomFor(sequence, numTokens)) return false;
    const missing = this.#missingBlocks(sequence, numTokens);
    this.#pools.forEach((pool, group) => {
      for (let i = 0; i < missing; i++) sequence.blockTables[group]!.push(pool.allocate()!);
    });
    return true;
  }

  /** Publishes the blocks that numComputedTokens has filled since the last call. */
  publishFull(sequence: Sequence): void {
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
  release(sequence: Sequence): void {
    this.#unleadAll(sequence);
    sequence.blockTables.forEach((table, group) => {
      for (let i = table.length - 1; i >= 0; i--) this.#pools[group]!.release(table[i]!);
      table.length = 0;
    });
    sequence.nodes.length = 0;
    sequence.numComputedTokens = 0;
    sequence.isPublishing = true;
  }

  #missingBlocks(sequence: Sequence, numTokens: number): number {
    const wanted = this.blocksFor(Math.max(numTokens, this.options.reservedTokens));
    return Math.max(0, wanted - sequence.blockTables[0]!.length);
  }

  #reads(sequence: Sequence): boolean {
    const needsEveryPosition = sequence.sampling.numPromptLogprobs !== undefined || sequence.pooler?.needsAll === true;
    return this.options.isPrefixCachingEnabled && !needsEveryPosition;
  }

  #root(sequence: Sequence): PrefixNode {
    sequence.prefixRoot ??= this.#index.root(sequence.cacheSalt);
    return sequence.prefixRoot;
  }

  /** Nodes of the longest cached prefix that leaves at least one token to compute. */
  #walk(sequence: Sequence): PrefixNode[] {
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
    return hits;
  }

  /** Keys of the prompt's full blocks (those a follower could use), computed once per sequence. */
  #prepareKeys(sequence: Sequence, root: PrefixNode): void {
    if (sequence.promptKeys.length > 0) return;
    const numBlocks = Math.floor((sequence.numPromptTokens - 1) / this.blockSize);
    let key = root.key;
    for (let block = 0; block < numBlocks; block++) {
      key = this.#index.keyOf(key, sequence.tokens, block * this.blockSize);
      sequence.promptKeys.push(key);
    }
  }

  #unleadAll(sequence: Sequence): void {
    for (let block = 0; block < sequence.promptKeys.length; block++) this.#unlead(sequence, block);
  }

  #unlead(sequence: Sequence, block: number): void {
    const key = sequence.promptKeys[block];
    if (key !== undefined && this.#leaders.get(key) === sequence) this.#leaders.delete(key);
  }
}
