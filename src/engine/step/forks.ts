/**
 * Spare blocks in which a step stores alternatives to the first token of a draft. The row of an alternative has a block
 * table of its own: the sequence's, but for the last block, which is a copy. The token before the alternative is
 * computed by the same step and stored in both blocks. So attention reads the entries that it would read if the
 * alternative were the text, by the same operations in the same order. Where the alternative comes true, its block is
 * copied back.
 */
import type { KvCaches } from "../memory/kv-caches.js";
import type { KvSequence } from "../memory/kv-sequence.js";
import type { StepBatch } from "./step-batch.js";

interface ForkPlace {
  /** Per group. */
  readonly numBlocks: readonly number[];
  readonly blockSize: number;
  readonly firstSeat: number;
}

export class Forks {
  /** By fork of this step, the blocks of its sequence that it copies, one per group. */
  readonly #originals: number[][] = [];
  readonly #copy: Uint8Array;
  readonly #kept: number[] = [];

  /**
   * @param caches have as many blocks behind those of each pool as there are forks, and `batch` as many seats behind
   * those of sequences
   */
  constructor(
    private readonly caches: KvCaches,
    private readonly batch: StepBatch,
    private readonly place: ForkPlace,
  ) {
    this.#copy = new Uint8Array(caches.blockBytes);
  }

  /** A step is laid out. */
  clear(): void {
    this.#originals.length = 0;
  }

  /**
   * Moves the batch's last row to a fork of its sequence.
   * @param position the row's, in a block that the sequence has
   * @param rowBefore the row that computes the token before it in this step
   * @returns the fork's number
   */
  open({ seat, blockTables }: KvSequence, position: number, rowBefore: number): number {
    const { place } = this;
    const batch = this.batch;
    const { tableStride } = batch.capacity;
    const fork = this.#originals.length;
    const row = batch.numRows - 1;
    const block = Math.floor(position / place.blockSize);
    const own = place.firstSeat + fork;
    this.#originals.push(blockTables.map((table) => table[block]!));
    batch.sequenceIndex.values[row] = own;
    const offset = position % place.blockSize;
    const copy = offset > 0 ? batch.numKvCopies++ : undefined;
    if (copy !== undefined) batch.kvCopyRows.values[copy] = rowBefore;
    blockTables.forEach((_, group) => {
      const { values } = batch.blockTables[group]!;
      const spare = place.numBlocks[group]! + fork;
      values.copyWithin(own * tableStride, seat * tableStride, seat * tableStride + block);
      values[own * tableStride + block] = spare;
      batch.kvSlots[group]!.values[row] = spare * place.blockSize + offset;
      if (copy !== undefined) batch.kvCopySlots[group]!.values[copy] = spare * place.blockSize + offset - 1;
    });
    return fork;
  }

  /**
   * Copies the entries from before this step into the forks' blocks. Call before it is computed.
   * @returns whether there are forks
   */
  async fill(): Promise<boolean> {
    for (const [fork, blocks] of this.#originals.entries()) await this.#move(blocks, this.#spare(fork));
    return this.#originals.length > 0;
  }

  /** The alternative has come true. */
  keep(fork: number): void {
    this.#kept.push(fork);
  }

  /** Copies the kept forks' blocks back. Call after the step is collected. */
  async copyKeptBack(): Promise<void> {
    for (const fork of this.#kept) await this.#move(this.#spare(fork), this.#originals[fork]!);
    this.#kept.length = 0;
  }

  #spare(fork: number): number[] {
    return this.place.numBlocks.map((count) => count + fork);
  }

  async #move(from: readonly number[], to: readonly number[]): Promise<void> {
    await this.caches.copyOut(from, this.#copy);
    this.caches.copyIn(to, this.#copy);
  }
}
