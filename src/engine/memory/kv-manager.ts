/**
 * Allocates KV blocks to sequences on demand, shares published prefixes, and releases blocks in an order that keeps the
 * heads of prefixes cached longest.
 */
import { countUsable, firstSeenBlock } from "../../text/block-windows.js";
import { BlockPool } from "./block-pool.js";
import type { Eviction } from "./eviction.js";
import { mainGroup, poolSizes } from "./groups.js";
import type { KvSequence } from "./kv-sequence.js";
import type { PrefixNode } from "./prefix-index.js";
import { PrefixIndex } from "./prefix-index.js";
import type { StateSlots } from "./state-slots.js";
import { blocksAtOnce, STATE_WINDOW } from "./windows.js";

interface KvManagerOptions {
  /** Per KV group: window in tokens; 0 = all entries are kept. */
  readonly windows: readonly number[];
  /** Per KV group: its share of its pool. */
  readonly numBlocks: readonly number[];
  /** Per KV group: the number of its pool; absent: each group has its own. */
  readonly pools?: readonly number[];
  /** Absent: all entries within a window are kept. */
  readonly eviction?: Eviction | undefined;
  readonly blockSize: number;
  /** Most tokens of one sequence in a step. */
  readonly maxStepTokens: number;
  readonly isPrefixCachingEnabled: boolean;
  /** Tokens whose blocks are reserved at admission; 0 = on demand. */
  readonly reservedTokens: number;
  /** Of a model with recurrent layers: prefixes are read only as far as one is kept. */
  readonly states?: StateSlots | undefined;
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
  /** Per KV group. */
  readonly #poolOf: readonly number[];
  /** Per pool. */
  readonly #groupsOf: readonly (readonly number[])[];
  readonly #index: PrefixIndex;
  readonly #main: number;
  /** Per KV group, then of recurrent states. */
  readonly #usableWindows: readonly number[];
  /**
   * By key of a prompt block: the leader, an admitted sequence that is about to compute it and that others wait for.
   */
  readonly #leaders = new Map<number, KvSequence>();
  /**
   * Of recurrent models, by waiting sequence: the last prompt block that it shares with its leader. As long as that
   * one leads there, no other sequence that shares more can come in, since it would wait for the leader, too.
   */
  readonly #awaited = new WeakMap<KvSequence, { readonly leader: KvSequence; readonly block: number }>();
  /** Set once, before the first sequence arrives. */
  store: BlockStore | undefined;
  queriedTokens = 0;
  hitTokens = 0;
  #numRestored = 0;

  constructor(private readonly options: KvManagerOptions) {
    this.blockSize = options.blockSize;
    this.#poolOf = options.pools ?? options.windows.map((_, group) => group);
    const snapshots = options.states?.snapshots;
    this.#index = new PrefixIndex(this.#poolOf, options.blockSize, snapshots && ((node) => snapshots.has(node)));
    snapshots?.onChange(({ key }) => this.#index.noteChange(key));
    this.#usableWindows = snapshots === undefined ? options.windows : [...options.windows, STATE_WINDOW];
    this.#pools = poolSizes(options.numBlocks, this.#poolOf).map(
      (numBlocks, pool) => new BlockPool(numBlocks, (blockId) => this.#index.forget(pool, blockId)),
    );
    this.#groupsOf = this.#pools.map((_, pool) => this.#poolOf.flatMap((own, group) => (own === pool ? [group] : [])));
    this.#main = mainGroup(options.windows);
  }

  /** Blocks of the main group in use by sequences. Where groups share its pool: the average of these groups. */
  get numUsedBlocks(): number {
    return Math.ceil(this.usedBlocksOf(this.#main) / this.#groupsOf[this.#poolOf[this.#main]!]!.length);
  }

  /** Blocks of the main group. */
  get numBlocks(): number {
    return this.options.numBlocks[this.#main]!;
  }

  /** The main group, and its window in tokens; 0 = none. */
  get main(): { readonly group: number; readonly window: number } {
    return { group: this.#main, window: this.options.windows[this.#main]! };
  }

  /** Blocks in use of the group's pool. */
  usedBlocksOf(group: number): number {
    const { numBlocks, numFree } = this.#pools[this.#poolOf[group]!]!;
    return numBlocks - numFree;
  }

  /** Drafted tokens that a step may have. */
  get maxDraftTokens(): number {
    return this.options.states?.maxDraftTokens ?? Number.POSITIVE_INFINITY;
  }

  /** See PrefixIndex. */
  takeChanges(): Float64Array {
    return this.#index.takeChanges();
  }

  /**
   * True while another admitted sequence computes the first block that this one lacks: waiting is cheaper than
   * computing it twice. A background sequence may stand still for long, so only others of its kind wait for it.
   */
  shouldWaitForLeader(sequence: KvSequence): boolean {
    if (!this.#reads(sequence)) return false;
    const { numHits } = this.#walk(sequence);
    if (numHits === this.#numUsable(sequence)) return false;
    const { states } = this.options;
    if (states === undefined) return this.#leaderOf(sequence, numHits) !== undefined;
    const awaited = this.#awaitedBy(sequence, numHits);
    if (awaited === undefined) return false;
    // The follower can take up the state behind the last block that the two share.
    states.want(awaited.leader, awaited.block + 1);
    return true;
  }

  #awaitedBy(sequence: KvSequence, numHits: number) {
    const known = this.#awaited.get(sequence);
    if (known !== undefined && known.block >= numHits && this.#leaderOf(sequence, known.block) === known.leader)
      return known;
    for (let block = sequence.promptKeys.length - 1; block >= numHits; block--) {
      const leader = this.#leaderOf(sequence, block);
      if (leader === undefined) continue;
      const awaited = { leader, block };
      this.#awaited.set(sequence, awaited);
      return awaited;
    }
    return undefined;
  }

  /** The sequence to wait for as it computes the prompt's block. */
  #leaderOf(sequence: KvSequence, block: number): KvSequence | undefined {
    const leader = this.#leaders.get(sequence.promptKeys[block]!);
    return leader === undefined || leader === sequence || goesBefore(sequence, leader) ? undefined : leader;
  }

  /**
   * Attaches the cached blocks of the longest known prefix and sets numComputedTokens to its length. The last token is
   * never taken from the cache, since its logits are needed.
   */
  attachPrefix(sequence: KvSequence): void {
    const { found, numHits } = this.#reads(sequence) ? this.#walk(sequence) : { found: [], numHits: 0 };
    const hits = found.slice(0, numHits);
    sequence.numComputedTokens = hits.length * this.blockSize;
    this.#poolOf.forEach((pool, group) => {
      const firstSeen = this.#firstSeen(group, sequence.numComputedTokens);
      hits.forEach((node, block) => {
        const blockId = block < firstSeen ? -1 : node.blocks[group]!;
        if (blockId !== -1) this.#pools[pool]!.retain(blockId);
        sequence.blockTables[group]!.push(blockId);
      });
      sequence.numGivenBack[group] = firstSeen;
    });
    sequence.nodes.push(...hits);
    this.options.states?.attach(sequence, found, numHits);
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
      if (start % blockSize !== 0 || start / blockSize >= this.#numUsable(sequence)) return false;
      const parent = sequence.nodes.at(-1) ?? this.#root(sequence);
      const tokens = sequence.tokens.subarray(start, start + blockSize);
      if (!store.has(parent, tokens)) return false;
      if (this.#numRestored === store.blocksPerStep) return true;
      if (!this.ensureCapacity(sequence, start + blockSize)) return false;
      const blocks = sequence.blockTables.map((table) => table[start / blockSize]!);
      this.#numRestored++;
      if (!store.restore(parent, tokens, blocks)) return false;
      sequence.numComputedTokens += blockSize;
      this.publishAndTrim(sequence);
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
   * @param promised per pool: blocks reserved for other sequences
   */
  hasRoomFor(sequence: KvSequence, promised: readonly number[], departing: readonly KvSequence[] = []): boolean {
    return this.#pools.every((pool, index) => {
      const numFreed = numHeldAlone(departing, this.#groupsOf[index]!, pool);
      return pool.numFree + numFreed - promised[index]! >= this.#numLacking(sequence, index);
    });
  }

  /** Per pool: blocks that the sequences' present tokens need beyond those they hold. */
  promisedTo(sequences: readonly KvSequence[]): number[] {
    return this.#pools.map((_, pool) =>
      sequences.reduce((sum, sequence) => sum + Math.max(0, this.#numLacking(sequence, pool)), 0),
    );
  }

  #numLacking(sequence: KvSequence, pool: number): number {
    const groups = this.#groupsOf[pool]!;
    const { windows, reservedTokens, maxStepTokens, eviction } = this.options;
    const numTokens = Math.max(sequence.numTokens, reservedTokens);
    const window = windows[groups[0]!]!;
    const atOnce =
      window === 0 && eviction !== undefined
        ? eviction.mostBlocks(sequence.numPromptTokens, numTokens)
        : blocksAtOnce(window, numTokens, maxStepTokens, this.blockSize);
    const numHeld = groups.reduce((sum, group) => sum + numHeldIn(sequence, group), 0);
    // A window never needs more blocks than the sequence has left to compute.
    const all = Math.ceil(numTokens / this.blockSize);
    const numToCome = groups.reduce((sum, group) => sum + all - numEntered(sequence, group), 0);
    return Math.min(atOnce * groups.length - numHeld, numToCome);
  }

  /** Extends the block tables to `numTokens` tokens, all or nothing; false if memory is short. */
  ensureCapacity(sequence: KvSequence, numTokens: number): boolean {
    const wanted = Math.ceil(Math.max(numTokens, this.options.reservedTokens) / this.blockSize);
    // Every group has entered as many blocks.
    const missing = wanted - numEntered(sequence, 0);
    if (this.#pools.some((pool, index) => pool.numFree < missing * this.#groupsOf[index]!.length)) return false;
    sequence.blockTables.forEach((table, group) => {
      for (let i = 0; i < missing; i++) table.push(this.#pools[this.#poolOf[group]!]!.allocate()!);
    });
    return true;
  }

  /** Tokens of the sequence whose keys and values are gone, averaged over the layers that evict. */
  numEvictedTokens({ numEvicted }: KvSequence): number {
    const numLayers = this.#groupsOf[this.#poolOf[this.#main]!]!.length;
    return Math.round((numEvicted.reduce((sum, count) => sum + count, 0) * this.blockSize) / numLayers);
  }

  /** The last position, exclusive, that a step may compute of the sequence: entries may be dropped there. */
  stepEnd({ numPromptTokens, numComputedTokens }: KvSequence): number {
    return this.options.eviction?.nextPoint(numPromptTokens, numComputedTokens) ?? Number.POSITIVE_INFINITY;
  }

  /** The last position, exclusive, of a draft: the attention of drafted tokens must not be counted. */
  draftEnd({ numPromptTokens, numComputedTokens }: KvSequence): number {
    return this.options.eviction?.firstObserved(numPromptTokens, numComputedTokens) ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Drops entries of groups, and publishes no further blocks: they depend on the choice.
   * @param kept for each of the groups: places in its table, ascending
   */
  evict(sequence: KvSequence, groups: readonly number[], kept: readonly (readonly number[])[]): void {
    const stays = kept.map((places) => new Set(places));
    this.#free(sequence, groups, (place, i) => !stays[i]!.has(place));
    groups.forEach((group, i) => {
      const table = sequence.blockTables[group]!;
      const rest = kept[i]!.map((place) => table[place]!);
      sequence.numEvicted[group]! += table.length - rest.length;
      table.splice(0, table.length, ...rest);
      sequence.numTableEntriesWritten[group] = 0;
    });
    sequence.isPublishing = false;
    this.#unleadAll(sequence);
  }

  /**
   * Gives blocks back, tails first in all groups alike: the head of a prefix is worth nothing where one of its layers
   * is gone.
   */
  #free(
    { blockTables }: KvSequence,
    groups: readonly number[],
    isFreed: (place: number, indexOfGroup: number) => boolean,
  ): void {
    const longest = Math.max(...groups.map((group) => blockTables[group]!.length));
    for (let place = longest - 1; place >= 0; place--) {
      groups.forEach((group, i) => {
        const blockId = blockTables[group]![place];
        if (blockId !== undefined && isFreed(place, i)) this.#pools[this.#poolOf[group]!]!.release(blockId);
      });
    }
  }

  /** Publishes the blocks filled since the last call, and gives back blocks that no later query sees. */
  publishAndTrim(sequence: KvSequence): void {
    this.#publishFull(sequence);
    this.options.states?.settle(sequence);
    sequence.blockTables.forEach((table, group) => {
      const pool = this.#pools[this.#poolOf[group]!]!;
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
    const groups = sequence.blockTables.map((_, group) => group);
    this.#free(sequence, groups, (place, group) => place >= sequence.numGivenBack[group]!);
    sequence.blockTables.forEach((table, group) => {
      table.length = 0;
      sequence.numGivenBack[group] = 0;
      sequence.numEvicted[group] = 0;
      sequence.numTableEntriesWritten[group] = 0;
    });
    sequence.nodes.length = 0;
    sequence.numComputedTokens = 0;
    this.options.states?.release(sequence);
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

  /** Blocks that a cache may spare a sequence. The last token is always computed, since its logits are needed. */
  #numUsable({ numTokens, numPromptTokens }: KvSequence): number {
    const most = this.options.eviction?.mostCached(numPromptTokens) ?? numTokens;
    return Math.floor(Math.min(numTokens - 1, most) / this.blockSize);
  }

  /**
   * Nodes of the sequence's first blocks, and how many of them may be used. Blocks outside a window may be missing, and
   * a recurrent state must stand behind the last one.
   */
  #walk(sequence: KvSequence): { readonly found: readonly PrefixNode[]; readonly numHits: number } {
    const found: PrefixNode[] = [];
    let parent = this.#root(sequence);
    this.#prepareKeys(sequence, parent);
    const numUsable = this.#numUsable(sequence);
    for (let block = 0; block < numUsable; block++) {
      const start = block * this.blockSize;
      const key = sequence.promptKeys[block] ?? this.#index.keyOf(parent.key, sequence.tokens, start);
      const node = this.#index.find(parent, key, sequence.tokens, start);
      if (node === undefined) break;
      found.push(node);
      parent = node;
    }
    const { windows, states } = this.options;
    const isThere = (block: number, group: number) =>
      group < windows.length ? found[block]!.blocks[group] !== -1 : states!.snapshots.has(found[block]!);
    return { found, numHits: countUsable(found.length, this.#usableWindows, this.blockSize, isThere) };
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

/** Number of a pool's blocks that only these sequences hold. */
function numHeldAlone(sequences: readonly KvSequence[], groups: readonly number[], pool: BlockPool): number {
  const holders = new Map<number, number>();
  for (const { blockTables, numGivenBack } of sequences) {
    for (const group of groups) {
      for (const blockId of blockTables[group]!.slice(numGivenBack[group])) {
        holders.set(blockId, (holders.get(blockId) ?? 0) + 1);
      }
    }
  }
  return [...holders].filter(([blockId, count]) => pool.refCount(blockId) === count).length;
}

const numHeldIn = ({ blockTables, numGivenBack }: KvSequence, group: number): number =>
  blockTables[group]!.length - numGivenBack[group]!;

/** Blocks that the group's table has had, evicted ones included. */
const numEntered = ({ blockTables, numEvicted }: KvSequence, group: number): number =>
  blockTables[group]!.length + numEvicted[group]!;
