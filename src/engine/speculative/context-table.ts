/**
 * What came after the last few tokens when they stood there before: a table from contexts of several lengths to the token that followed, and how
 * often in a row it did. Learning a token and asking for one cost the same however long the text is. Such tables are what context-mixing
 * compressors predict by.
 */

/** Lengths of context that are learnt; each next one costs as much as the one before and is sure of more. */
export const CONTEXT_LENGTHS = [1, 2, 4, 8, 16] as const;
export const LONGEST_CONTEXT = 16;

export interface Successor {
  /** Index of the context's length in CONTEXT_LENGTHS. */
  readonly order: number;
  readonly token: number;
  /** How often it came, less what came instead: 1 to MAX_COUNT. */
  readonly count: number;
}

const MAX_COUNT = 255;
const EMPTY = -1;
const FEWEST_SLOTS = 1024;
/** Tokens of a text have nearly a context of each length of their own, and half of the slots stay empty. */
const SLOTS_PER_TOKEN = 2 * CONTEXT_LENGTHS.length;
/** Slots next to each other that a context may stand in. */
const NUM_WAYS = 4;

/** Writes the hash of the last tokens before `end` for each length of context that there is. @returns how many those are */
export function hashContexts(tokens: Int32Array, end: number, hashes: Int32Array): number {
  const longest = Math.min(LONGEST_CONTEXT, end);
  let hash = 0;
  let order = 0;
  for (let length = 1; length <= longest; length++) {
    hash = Math.imul(hash ^ tokens[end - length]!, 0x9e3779b1);
    hash ^= hash >>> 15;
    if (length === CONTEXT_LENGTHS[order]) hashes[order++] = Math.imul(hash ^ length, 0x85ebca6b);
  }
  return order;
}

export class ContextTable {
  /** By slot: the whole hash of the context it is for. */
  #hashes: Int32Array;
  /** By slot: the token above 8 bits of count, or EMPTY. */
  #successors: Int32Array;
  #numContexts = 0;

  /** @param numTokens how many will be learnt, as far as that is known: room for them need not be made later */
  constructor(numTokens = 0) {
    const numSlots = 2 ** Math.ceil(Math.log2(Math.max(FEWEST_SLOTS, SLOTS_PER_TOKEN * numTokens)));
    this.#hashes = new Int32Array(numSlots);
    this.#successors = new Int32Array(numSlots).fill(EMPTY);
  }

  /** Different ones that it knows. */
  get numContexts(): number {
    return this.#numContexts;
  }

  /** After the contexts hashes[first … end), `token` came. */
  learn(hashes: Int32Array, first: number, end: number, token: number): void {
    for (let order = first; order < end; order++) this.#learnOne(hashes[order]!, token);
    if (2 * this.#numContexts > this.#hashes.length) this.#grow();
  }

  /** What followed the longest of the contexts hashes[first … end) that is known. */
  find(hashes: Int32Array, first: number, end: number): Successor | undefined {
    for (let order = end - 1; order >= first; order--) {
      const slot = this.#slotFor(hashes[order]!);
      const successor = this.#successors[slot]!;
      if (successor === EMPTY || this.#hashes[slot] !== hashes[order]) continue;
      return { order, token: successor >> 8, count: successor & MAX_COUNT };
    }
    return undefined;
  }

  #learnOne(hash: number, token: number): void {
    const slot = this.#slotFor(hash);
    const successor = this.#successors[slot]!;
    const count = successor & MAX_COUNT;
    if (successor === EMPTY) this.#numContexts++;
    else if (this.#hashes[slot] !== hash) {
      // No slot is left: the context that was there keeps it as long as it has come more often.
      if (count > 1) {
        this.#successors[slot] = successor - 1;
        return;
      }
    } else if (successor >> 8 === token) {
      if (count < MAX_COUNT) this.#successors[slot] = successor + 1;
      return;
    } else if (count > 3) {
      // Something else for once: what came often is believed half as much.
      this.#successors[slot] = successor - count + (count >> 1);
      return;
    }
    this.#hashes[slot] = hash;
    this.#successors[slot] = (token << 8) | 1;
  }

  /** The context's slot; if it has none, an empty one; if there is none, that of the context that came least often. */
  #slotFor(hash: number): number {
    const home = (hash ^ (hash >>> 15)) & (this.#hashes.length - 1);
    let rarest = home;
    for (let way = 0; way < NUM_WAYS; way++) {
      const slot = home ^ way;
      const successor = this.#successors[slot]!;
      if (successor === EMPTY || this.#hashes[slot] === hash) return slot;
      if ((successor & MAX_COUNT) < (this.#successors[rarest]! & MAX_COUNT)) rarest = slot;
    }
    return rarest;
  }

  #grow(): void {
    const hashes = this.#hashes;
    const successors = this.#successors;
    this.#hashes = new Int32Array(2 * hashes.length);
    this.#successors = new Int32Array(2 * hashes.length).fill(EMPTY);
    this.#numContexts = 0;
    for (let i = 0; i < hashes.length; i++) {
      if (successors[i] === EMPTY) continue;
      const slot = this.#slotFor(hashes[i]!);
      if (this.#successors[slot] === EMPTY) this.#numContexts++;
      this.#hashes[slot] = hashes[i]!;
      this.#successors[slot] = successors[i]!;
    }
  }
}
