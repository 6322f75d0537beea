/**
 * A table from contexts (the last few tokens, in several lengths) to the token that followed them last, and how often
 * in a row it did. Learning and asking cost the same however long the text is. Context-mixing compressors predict with
 * such tables.
 */

/** Lengths of context in tokens. Each costs the same; longer ones predict more surely. */
export const CONTEXT_LENGTHS = [1, 2, 4, 8, 16] as const;
export const LONGEST_CONTEXT = 16;

export interface Successor {
  /** Index of the context's length in CONTEXT_LENGTHS. */
  readonly order: number;
  readonly token: number;
  /** Confidence, 1 to MAX_COUNT: occurrences of this token, reduced by occurrences of others. */
  readonly count: number;
}

const MAX_COUNT = 255;
const EMPTY = -1;
const FEWEST_SLOTS = 1024;
/** Slots per learnt token: nearly every token adds a context of each length, and half of the slots stay empty. */
const SLOTS_PER_TOKEN = 2 * CONTEXT_LENGTHS.length;
/** Adjacent slots that may hold a context. */
const NUM_WAYS = 4;

/** Writes the hash of the tokens before `end` for each length of context that fits. @returns the number of hashes */
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
  /** By slot: the full hash of its context. */
  #hashes: Int32Array;
  /** By slot: the token, shifted by 8 bits, and the count; or EMPTY. */
  #successors: Int32Array;
  #numContexts = 0;

  /** @param numTokens expected number of tokens to learn: the table is sized for them at once */
  constructor(numTokens = 0) {
    const numSlots = 2 ** Math.ceil(Math.log2(Math.max(FEWEST_SLOTS, SLOTS_PER_TOKEN * numTokens)));
    this.#hashes = new Int32Array(numSlots);
    this.#successors = new Int32Array(numSlots).fill(EMPTY);
  }

  /** Number of contexts in the table. */
  get numContexts(): number {
    return this.#numContexts;
  }

  /** Learns that `token` followed the contexts hashes[first … end). */
  learn(hashes: Int32Array, first: number, end: number, token: number): void {
    for (let order = first; order < end; order++) this.#learnOne(hashes[order]!, token);
    if (2 * this.#numContexts > this.#hashes.length) this.#grow();
  }

  /** The token that followed the longest known context among hashes[first … end). */
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
      // All slots are taken: the present context keeps its slot while its count is higher.
      if (count > 1) {
        this.#successors[slot] = successor - 1;
        return;
      }
    } else if (successor >> 8 === token) {
      if (count < MAX_COUNT) this.#successors[slot] = successor + 1;
      return;
    } else if (count > 3) {
      // Another token followed: halves the confidence in the frequent one.
      this.#successors[slot] = successor - count + (count >> 1);
      return;
    }
    this.#hashes[slot] = hash;
    this.#successors[slot] = (token << 8) | 1;
  }

  /** The context's slot, else an empty one, else the slot with the lowest count. */
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
