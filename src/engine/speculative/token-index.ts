/**
 * A growing text of token ids in which earlier occurrences of a sequence's last tokens are found: chains of the places where the same few
 * tokens end, newest first, as in LZ77. Appending a token and following a link cost the same however long the text is.
 */

export interface Occurrence {
  /** Where the text goes on behind the tokens that match. */
  readonly end: number;
  /** How many tokens before `end` match, at most MAX_MATCH. */
  readonly length: number;
}

/** Longer matches promise no more. */
export const MAX_MATCH = 32;

/** Between two texts; no token is negative, so nothing matches across it. */
export const SEPARATOR = -1;

const NOWHERE = -1;
const INITIAL_CAPACITY = 1024;

export class TokenIndex {
  #tokens = new Int32Array(INITIAL_CAPACITY);
  /** By position: the place before it that ends with a gram of the same hash. */
  #previous = new Int32Array(INITIAL_CAPACITY);
  /** By hash: the newest such place. */
  #newest = new Int32Array(INITIAL_CAPACITY).fill(NOWHERE);
  #length = 0;

  /** @param gram tokens that must match at least, 1 or more */
  constructor(private readonly gram: number) {}

  get length(): number {
    return this.#length;
  }

  at(position: number): number {
    return this.#tokens[position]!;
  }

  append(token: number): void {
    if (this.#length === this.#tokens.length) this.#grow();
    this.#tokens[this.#length++] = token;
    this.#link(this.#length);
  }

  /**
   * Places, newest first, where the last tokens of tail[0 … tailLength) stand and something follows.
   * @param limit how many places of the same hash are looked at
   */
  find(tail: Int32Array, tailLength: number, limit: number): Occurrence[] {
    const found: Occurrence[] = [];
    if (tailLength < this.gram) return found;
    let end = this.#newest[this.#hash(tail, tailLength)]!;
    for (let looked = 0; end !== NOWHERE && looked < limit; looked++, end = this.#previous[end - 1]!) {
      if (end === this.#length) continue;
      const length = this.#matchLength(tail, tailLength, end);
      if (length >= this.gram) found.push({ end, length });
    }
    return found;
  }

  #matchLength(tail: Int32Array, tailLength: number, end: number): number {
    const most = Math.min(MAX_MATCH, tailLength, end);
    let length = 0;
    while (length < most && this.#tokens[end - 1 - length] === tail[tailLength - 1 - length]) length++;
    return length;
  }

  /** Puts the gram that ends at `end` in front of its chain. */
  #link(end: number): void {
    if (end < this.gram) {
      this.#previous[end - 1] = NOWHERE;
      return;
    }
    const hash = this.#hash(this.#tokens, end);
    this.#previous[end - 1] = this.#newest[hash]!;
    this.#newest[hash] = end;
  }

  /** Of the gram that ends at `end`, below the length of #newest (a power of two). */
  #hash(tokens: Int32Array, end: number): number {
    let hash = 0;
    for (let i = end - this.gram; i < end; i++) hash = Math.imul(hash ^ tokens[i]!, 0x9e3779b1) ^ (hash >>> 15);
    hash ^= hash >>> 16;
    return (Math.imul(hash, 0x85ebca6b) >>> 8) & (this.#newest.length - 1);
  }

  #grow(): void {
    const capacity = 2 * this.#tokens.length;
    const tokens = new Int32Array(capacity);
    tokens.set(this.#tokens);
    this.#tokens = tokens;
    this.#previous = new Int32Array(capacity);
    this.#newest = new Int32Array(capacity).fill(NOWHERE);
    for (let end = 1; end <= this.#length; end++) this.#link(end);
  }
}
