/**
 * Recurrent states at the ends of cached prefixes: a hit needs the state at precisely its end. A few slots behind
 * those of the seats: the next one takes the place of one whose prefix is gone, or else of the least recently used. A
 * slot that a sequence continues, or that a step is writing, stays.
 */
import type { PrefixNode } from "./prefix-index.js";

export class StateSnapshots {
  readonly #free: number[];
  /** By the last block of the prefix, least recently used first. */
  readonly #slots = new Map<PrefixNode, number>();
  /** By slot: the sequences that will continue it. */
  readonly #numReaders = new Map<number, number>();
  #onChange: (node: PrefixNode) => void = () => {};

  constructor(firstSlot: number, numSlots: number) {
    this.#free = Array.from({ length: numSlots }, (_, i) => firstSlot + i).reverse();
  }

  /** @param listener hears of nodes that get a state or lose it */
  onChange(listener: (node: PrefixNode) => void): void {
    this.#onChange = listener;
  }

  has(node: PrefixNode): boolean {
    return this.#slots.has(node);
  }

  /** The node's slot, which stays until it is unpinned. */
  pin(node: PrefixNode): number {
    const slot = this.#slots.get(node)!;
    this.#slots.delete(node);
    this.#slots.set(node, slot);
    this.#numReaders.set(slot, (this.#numReaders.get(slot) ?? 0) + 1);
    return slot;
  }

  unpin(slot: number): void {
    const numLeft = this.#numReaders.get(slot)! - 1;
    if (numLeft > 0) this.#numReaders.set(slot, numLeft);
    else this.#numReaders.delete(slot);
  }

  /** A slot to write; undefined: all are read or written. Every slot taken is kept or given back. */
  take(): number | undefined {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const given = this.#unread((node) => !node.isLive) ?? this.#unread(() => true);
    if (given === undefined) return undefined;
    const [node, slot] = given;
    this.#slots.delete(node);
    this.#onChange(node);
    return slot;
  }

  /** The least recently used one that no sequence will continue. */
  #unread(isGiven: (node: PrefixNode) => boolean): readonly [PrefixNode, number] | undefined {
    for (const entry of this.#slots) if (!this.#numReaders.has(entry[1]) && isGiven(entry[0])) return entry;
    return undefined;
  }

  /** The slot that was taken holds the state behind the node's prefix. */
  keep(node: PrefixNode, slot: number): void {
    if (this.#slots.has(node)) this.#free.push(slot);
    else {
      this.#slots.set(node, slot);
      this.#onChange(node);
    }
  }

  giveBack(slot: number): void {
    this.#free.push(slot);
  }
}
