/**
 * Which blocks hold which prefixes. An entry is a node of a tree of full blocks; it is found by its chained hash and believed only after its
 * tokens and its parent node were compared, so a hash collision costs a miss, never a wrong hit. Published blocks are never rewritten.
 */
import { blockKey, rootKey } from "../../text/block-hash.js";

export interface PrefixNode {
  readonly key: number;
  /** null for the root of a salt. */
  readonly parent: PrefixNode | null;
  readonly salt: string;
  /** The block's tokens; empty for a root. */
  readonly tokens: Int32Array;
  /** Block id per KV group; −1 where that group's block was reused. */
  readonly blocks: Int32Array;
  /** Nodes below it: while there are any it stays, blocks or not, as their way from the root. */
  numChildren: number;
  /** False once the index forgot it; nothing is published below such a node. */
  isLive: boolean;
}

const NOTHING = new Float64Array(0);

export class PrefixIndex {
  readonly #nodes = new Map<number, PrefixNode>();
  /** Of the salts that have blocks. */
  readonly #roots = new Map<string, PrefixNode>();
  /** Per group: the node whose contents a block holds. */
  readonly #nodeOfBlock: (PrefixNode | undefined)[][];
  /** Keys of nodes that have got or lost a block since somebody asked; undefined: nobody ever did. */
  #changed: Set<number> | undefined;

  constructor(
    private readonly numGroups: number,
    private readonly blockSize: number,
  ) {
    this.#nodeOfBlock = Array.from({ length: numGroups }, () => []);
  }

  get numNodes(): number {
    return this.#nodes.size;
  }

  get numRoots(): number {
    return this.#roots.size;
  }

  /** The root all prefixes of a salt hang from; until the first of them is published, and after the last is gone, another one each time. */
  root(salt: string): PrefixNode {
    const known = this.#roots.get(salt);
    if (known !== undefined) return known;
    return {
      key: rootKey(salt),
      salt,
      parent: null,
      tokens: new Int32Array(0),
      blocks: new Int32Array(0),
      numChildren: 0,
      isLive: true,
    };
  }

  keyOf(parentKey: number, tokens: ArrayLike<number>, start: number): number {
    return blockKey(parentKey, tokens, start, this.blockSize);
  }

  /** The node below `parent` with exactly these tokens, whichever of its blocks are there. */
  find(parent: PrefixNode, key: number, tokens: ArrayLike<number>, start: number): PrefixNode | undefined {
    const node = this.#nodes.get(key);
    if (node === undefined || node.parent !== parent) return undefined;
    return this.#hasTokens(node, tokens, start) ? node : undefined;
  }

  /**
   * Names `blockIds` (one per group) as the contents of tokens[start … start + blockSize) after `parent`.
   * @returns the node that now stands for this prefix, or undefined when it cannot be named (collision, forgotten parent).
   */
  publish(parent: PrefixNode, tokens: Int32Array, start: number, blockIds: readonly number[]): PrefixNode | undefined {
    if (!parent.isLive) return undefined;
    const key = this.keyOf(parent.key, tokens, start);
    const known = this.#nodes.get(key);
    if (known !== undefined && (known.parent !== parent || !this.#hasTokens(known, tokens, start))) return undefined;
    const node = known ?? this.#create(key, parent, tokens.slice(start, start + this.blockSize));
    for (let group = 0; group < this.numGroups; group++) {
      if (node.blocks[group] !== -1) continue;
      node.blocks[group] = blockIds[group]!;
      this.#nodeOfBlock[group]![blockIds[group]!] = node;
      this.#changed?.add(key);
    }
    return node;
  }

  /** A group's block is about to be overwritten. */
  forget(group: number, blockId: number): void {
    const node = this.#nodeOfBlock[group]![blockId];
    if (node === undefined) return;
    this.#nodeOfBlock[group]![blockId] = undefined;
    node.blocks[group] = -1;
    this.#changed?.add(node.key);
    this.#removeUnused(node);
  }

  /** What has changed since the last call, as CachedBlocks takes it; the first time, all that is there. */
  takeChanges(): Float64Array {
    if (this.#changed?.size === 0) return NOTHING;
    const keys = this.#changed ?? this.#nodes.keys();
    this.#changed = new Set();
    return Float64Array.from([...keys].flatMap((key) => [key, groupsOf(this.#nodes.get(key))]));
  }

  /** Removes the node if nothing hangs from it, and so on towards the root. */
  #removeUnused(node: PrefixNode): void {
    for (let each = node; each.parent !== null; each = each.parent) {
      if (each.numChildren > 0 || each.blocks.some((block) => block !== -1)) return;
      each.isLive = false;
      this.#nodes.delete(each.key);
      if (--each.parent.numChildren === 0 && each.parent.parent === null) this.#roots.delete(each.salt);
    }
  }

  #create(key: number, parent: PrefixNode, tokens: Int32Array): PrefixNode {
    const node = {
      key,
      parent,
      salt: parent.salt,
      tokens,
      blocks: new Int32Array(this.numGroups).fill(-1),
      numChildren: 0,
      isLive: true,
    };
    if (parent.parent === null) this.#roots.set(parent.salt, parent);
    parent.numChildren++;
    this.#nodes.set(key, node);
    return node;
  }

  #hasTokens(node: PrefixNode, tokens: ArrayLike<number>, start: number): boolean {
    for (let i = 0; i < this.blockSize; i++) if (node.tokens[i] !== tokens[start + i]) return false;
    return true;
  }
}

/** Bit g: group g's block is there. */
function groupsOf(node: PrefixNode | undefined): number {
  return node?.blocks.reduce((groups, block, group) => (block === -1 ? groups : groups | (1 << group)), 0) ?? 0;
}
