/**
 * DRY ("don't repeat yourself"), as llama.cpp has it: the tokens before a position end in a text that they also have
 * elsewhere: the token that followed it there becomes less likely, more so for longer texts. The penalties are a
 * function of the tokens before the position, drafted ones included.
 */
import { isDeepStrictEqual } from "node:util";
import type { DryBreaker, DryPenalty } from "../api/request.js";

/** No logit comes near it, and divided by the lowest temperature it is still a finite float. */
const MAX_PENALTY = 1e30;

/** Where tails of breakers begin alike, by their next token. */
interface Tails {
  /** The heads of the breakers whose tail ends here. */
  readonly heads: DryBreaker["heads"][];
  /** The same, one bit per token, once a text has the tail: heads are thousands, and most tails never come. */
  bits: Int32Array | undefined;
  readonly next: Map<number, Tails>;
}

const noTails = (): Tails => ({ heads: [], bits: undefined, next: new Map() });

/** Sequence breakers, ready for looking up. */
class Breakers {
  readonly #root = noTails();
  longestTail = 0;

  constructor(
    readonly source: DryPenalty["breakers"],
    private readonly vocabSize: number,
  ) {
    for (const { heads, tail } of source) {
      let tails = this.#root;
      for (const id of tail) {
        const next = tails.next.get(id) ?? noTails();
        tails.next.set(id, next);
        tails = next;
      }
      this.longestTail = Math.max(this.longestTail, tail.length);
      tails.heads.push(heads);
    }
  }

  /** Whether the token alone is a breaker. */
  isBreaker(id: number): boolean {
    return this.#isHead(this.#root, id);
  }

  /** How many of the last `window` tokens before `position` come after the last breaker. */
  numSince(tokens: Int32Array, position: number, window: number): number {
    for (let i = 0; i < window; i++) {
      const longest = this.#longestTailAt(tokens, position - 1 - i, i);
      if (longest !== undefined) return i - longest;
    }
    return window;
  }

  /** Undefined: no breaker begins at `start` and ends within the `numBehind` tokens behind it. */
  #longestTailAt(tokens: Int32Array, start: number, numBehind: number): number | undefined {
    const head = tokens[start]!;
    let longest = this.isBreaker(head) ? 0 : undefined;
    let tails = this.#root;
    for (let length = 1; length <= numBehind && tails.next.size > 0; length++) {
      const next = tails.next.get(tokens[start + length]!);
      if (next === undefined) break;
      if (this.#isHead(next, head)) longest = length;
      tails = next;
    }
    return longest;
  }

  #isHead(tails: Tails, id: number): boolean {
    if (tails.heads.length === 0) return false;
    tails.bits ??= this.#bitsOf(tails.heads);
    return (tails.bits[id >> 5]! & (1 << (id & 31))) !== 0;
  }

  #bitsOf(heads: Tails["heads"]): Int32Array {
    const bits = new Int32Array(Math.ceil(this.vocabSize / 32));
    for (const ids of heads) for (const id of ids) bits[id >> 5]! |= 1 << (id & 31);
    return bits;
  }
}

export class DryPenalties {
  readonly #breakers = new WeakMap<DryPenalty, Breakers>();
  /** The choices of a request come one after another, each with an equal copy of its breakers. */
  #newest: Breakers | undefined;
  /** How many tokens before the position come again before the token k places earlier. */
  #repeats = new Int32Array(1024);
  /** By the token that followed: the length of the longest text that comes again. */
  readonly #longest = new Map<number, number>();

  constructor(private readonly vocabSize: number) {}

  /**
   * Calls `add` for each token that would go on with a repetition at `position`. Takes time linear in the window.
   * @param tokens at least those before `position`
   */
  at(tokens: Int32Array, position: number, dry: DryPenalty, add: (id: number, penalty: number) => void): void {
    const { multiplier, base, allowedLength } = dry;
    const window = Math.min(position, dry.window ?? position);
    if (window <= allowedLength) return;
    const breakers = this.#breakersOf(dry);
    // A breaker that is as near as this spares the search for repetitions.
    const nearest = Math.min(allowedLength + breakers.longestTail, window);
    if (breakers.numSince(tokens, position, nearest) < allowedLength) return;
    const longestRepeat = this.#findRepeats(tokens, position, window);
    if (longestRepeat < allowedLength) return;
    // A breaker that begins further back cuts none of the repetitions short.
    const furthest = Math.min(longestRepeat + breakers.longestTail, window);
    const longestAllowed = breakers.numSince(tokens, position, furthest);
    this.#longest.clear();
    for (let k = 1; k < window; k++) {
      const length = Math.min(this.#repeats[k]!, longestAllowed);
      if (length < allowedLength) continue;
      const next = tokens[position - k]!;
      if (length > (this.#longest.get(next) ?? -1)) this.#longest.set(next, length);
    }
    for (const [id, length] of this.#longest) {
      if (!breakers.isBreaker(id)) add(id, Math.min(multiplier * base ** (length - allowedLength), MAX_PENALTY));
    }
  }

  #breakersOf(dry: DryPenalty): Breakers {
    let breakers = this.#breakers.get(dry);
    if (breakers === undefined) {
      const isNew = this.#newest === undefined || !isDeepStrictEqual(this.#newest.source, dry.breakers);
      breakers = isNew ? new Breakers(dry.breakers, this.vocabSize) : this.#newest!;
      this.#breakers.set(dry, breakers);
      this.#newest = breakers;
    }
    return breakers;
  }

  /**
   * The Z-algorithm on the window read backwards: repeats[k] tokens before the position are those that end k places
   * earlier. [left, right) is the stretch reaching furthest that is known to equal the beginning.
   * @returns the most tokens of them
   */
  #findRepeats(tokens: Int32Array, position: number, window: number): number {
    if (this.#repeats.length < window) this.#repeats = new Int32Array(2 * window);
    const repeats = this.#repeats;
    const last = position - 1;
    let [left, right, longest] = [0, 0, 0];
    for (let k = 1; k < window; k++) {
      let length = k < right ? Math.min(repeats[k - left]!, right - k) : 0;
      while (k + length < window && tokens[last - length] === tokens[last - k - length]) length++;
      if (k + length > right) [left, right] = [k, k + length];
      repeats[k] = length;
      if (length > longest) longest = length;
    }
    return longest;
  }
}
