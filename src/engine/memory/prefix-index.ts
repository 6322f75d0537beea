/**
 * Maps prefixes to blocks. An entry is a node in a tree of full blocks. It is found by its chained hash and used only
 * after its tokens and parent are compared, so that a hash collision causes a miss, never a wrong hit. Published blocks
 * are never rewritten.
 */
import { blockKey, rootKey } from "../../text/block-hash.js";

export interface PrefixNode {
  readonly key: number;
  /** null for the root of a salt. */
  readonly parent: PrefixNode | null;
  readonly salt: string;
  /** The block's tokens; empty for a root. */
  readonly tokens: Int32Array;
  /** Per KV group: block id; −1 where the group's block was reused. */
  readonly blocks: Int32Array;
  /** Number of child nodes. A node with children stays, even without blocks, as their path from the root. */
  numChildren: number;
  /** False once the index has dropped the node; no child is published then. */
  isLive: boolean;
}

const NOTHING = new Float64Array(0);

export class PrefixIndex {
  readonly #nodes = new Map<number, PrefixNode>();
  /** Roots of the salts that have blocks. */
  readonly #roots = new Map<string, PrefixNode>();
  /** Per pool, by block: the node whose contents it holds. */
  readonly #nodeOfBlock: (PrefixNode | undefined)[][];
  /** Keys of nodes that gained or lost a block since the last takeChanges(); undefined before its first call. */
  #changed: Set<number> | undefined;

  /**
   * @param pools per KV group: the pool of its blocks
   * @param hasState of a model with recurrent layers: is the state behind the node's prefix kept?
   */
  constructor(
    private readonly pools: readonly number[],
    private readonly blockSize: number,
    private readonly hasState: (node: PrefixNode) => boolean = () => false,
  ) {
    this.#nodeOfBlock = pools.map(() => []);
  }

  get numNodes(): number {
    return this.#nodes.size;
  }

  get numRoots(): number {
    return this.#roots.size;
  }

  /** The root of all prefixes of a salt. A new one each time while the salt has no published block. */
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

  /** The child of `parent` with exactly these tokens, whichever of its blocks are cached. */
  find(parent: PrefixNode, key: number, tokens: ArrayLike<number>, start: number): PrefixNode | undefined {
    const node = this.#nodes.get(key);
    if (node === undefined || node.parent !== parent) return undefined;
    return this.#hasTokens(node, tokens, start) ? node : undefined;
  }

  /**
   * Publishes `blockIds` (one per group) as the contents of tokens[start … start + blockSize) after `parent`.
   * @returns the node of this prefix; undefined if it cannot be published (hash collision, dropped parent)
   */
  publish(parent: PrefixNode, tokens: Int32Array, start: number, blockIds: readonly number[]): PrefixNode | undefined {
    if (!parent.isLive) return undefined;
    const key = this.keyOf(parent.key, tokens, start);
    const known = this.#nodes.get(key);
    if (known !== undefined && (known.parent !== parent || !this.#hasTokens(known, tokens, start))) return undefined;
    const node = known ?? this.#create(key, parent, tokens.slice(start, start + this.blockSize));
    this.pools.forEach((pool, group) => {
      if (node.blocks[group] !== -1) return;
      node.blocks[group] = blockIds[group]!;
      this.#nodeOfBlock[pool]![blockIds[group]!] = node;
      this.#changed?.add(key);
    });
    return node;
  }

  /** A pool's block is about to be reused. */
  forget(pool: number, blockId: number): void {
    const node = this.#nodeOfBlock[pool]![blockId];
    if (node === undefined) return;
    this.#nodeOfBlock[pool]![blockId] = undefined;
    node.blocks[this.pools.findIndex((own, group) => own === pool && node.blocks[group] === blockId)] = -1;
    this.#changed?.add(node.key);
    this.#removeUnused(node);
  }

  /** The state behind the node's prefix has come or gone. */
  noteChange(key: number): void {
    this.#changed?.add(key);
  }

  /** Changes since the last call, encoded as CachedBlocks reads them; at first, all nodes. */
  takeChanges(): Float64Array {
    if (this.#changed?.size === 0) return NOTHING;
    const keys = this.#changed ?? this.#nodes.keys();
    this.#changed = new Set();
    return Float64Array.from([...keys].flatMap((key) => [key, this.#poolsOf(this.#nodes.get(key))]));
  }

  /** Removes the node if it has neither blocks nor children, then its ancestors likewise. */
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
      blocks: new Int32Array(this.pools.length).fill(-1),
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

  /** Bit p: the blocks of all groups of pool p are cached. The bit behind these: the state is. */
  #poolsOf(node: PrefixNode | undefined): number {
    if (node === undefined) return 0;
    const numPools = Math.max(...this.pools) + 1;
    const all = (1 << numPools) - 1 + (this.hasState(node) ? 1 << numPools : 0);
    return this.pools.reduce((bits, pool, group) => (node.blocks[group] === -1 ? bits & ~(1 << pool) : bits), all);
  }
}
