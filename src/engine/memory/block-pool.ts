/**
 * The blocks of one pool, for the KV groups of one window width: reference counts, and a free list in order of reuse
 * (least recently freed first).
 */

/** Sentinel of the intrusive list. */
const NONE = -1;

export class BlockPool {
  readonly #refCounts: Int32Array;
  /** Doubly linked list through the free blocks, so that a cached block can be taken out of the middle. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #head = NONE;
  #tail = NONE;
  #numFree = 0;

  constructor(
    readonly numBlocks: number,
    /** Called when a free block is reused: its cached contents are lost. */
    private readonly onReuse: (blockId: number) => void,
  ) {
    this.#refCounts = new Int32Array(numBlocks);
    this.#next = new Int32Array(numBlocks).fill(NONE);
    this.#previous = new Int32Array(numBlocks).fill(NONE);
    for (let blockId = 0; blockId < numBlocks; blockId++) this.#append(blockId);
  }

  get numFree(): number {
    return this.#numFree;
  }

  refCount(blockId: number): number {
    return this.#refCounts[blockId]!;
  }

  /** Allocates the least recently freed block, with one reference; undefined: none is free. */
  allocate(): number | undefined {
    const blockId = this.#head;
    if (blockId === NONE) return undefined;
    this.#unlink(blockId);
    this.onReuse(blockId);
    this.#refCounts[blockId] = 1;
    return blockId;
  }

  /** Adds a reference. A free block leaves the free list and keeps its contents. */
  retain(blockId: number): void {
    if (this.#refCounts[blockId] === 0) this.#unlink(blockId);
    this.#refCounts[blockId]!++;
  }

  /** Drops a reference. At zero the block is free; its contents stay usable until it is reused. */
  release(blockId: number): void {
    const count = this.#refCounts[blockId]! - 1;
    if (count < 0) throw new Error(`block ${blockId} released more often than retained`);
    this.#refCounts[blockId] = count;
    if (count === 0) this.#append(blockId);
  }

  #append(blockId: number): void {
    this.#previous[blockId] = this.#tail;
    this.#next[blockId] = NONE;
    if (this.#tail === NONE) this.#head = blockId;
    else this.#next[this.#tail] = blockId;
    this.#tail = blockId;
    this.#numFree++;
  }

  #unlink(blockId: number): void {
    const previous = this.#previous[blockId]!;
    const next = this.#next[blockId]!;
    if (previous === NONE) this.#head = next;
    else this.#next[previous] = next;
    if (next === NONE) this.#tail = previous;
    else this.#previous[next] = previous;
    this.#numFree--;
  }
}
