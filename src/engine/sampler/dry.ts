/**
 * DRY ("don't repeat yourself"), as llama.cpp has it: the tokens before a position end in a text that they also have
 * elsewhere, and what followed it there becomes less likely, the more so the longer the text. The penalties are a
 * function of the tokens before the position, drafted ones included.
 */
import type { DryBreaker, DryPenalty } from "../api/request.js";

/** No logit comes near it, and divided by the lowest temperature it is still a finite float. */
const MAX_PENALTY = 1e30;

class TokenSet {
  /** One bit per token. */
  readonly #bits: Int32Array;

  constructor(vocabSize: number) {
    this.#bits = new Int32Array(Math.ceil(vocabSize / 32));
  }

  add(ids: DryBreaker["heads"]): this {
    for (const id of ids) this.#bits[id >> 5]! |= 1 << (id & 31);
    return this;
  }

  has(id: number): boolean {
    return (this.#bits[id >> 5]! & (1 << (id & 31))) !== 0;
  }
}

interface Spread extends DryBreaker {
  /** The heads, once a text has the tail: they are thousands, and most tails never come. */
  set?: TokenSet;
}

/** A request's sequence breakers, ready for looking up. */
class Breakers {
  readonly #single: TokenSet;
  /** Those of several tokens, by the first one of the tail. */
  readonly #spread = new Map<number, Spread[]>();

  constructor(
    dry: DryPenalty,
    private readonly vocabSize: number,
  ) {
    this.#single = new TokenSet(vocabSize);
    for (const { heads, tail } of dry.breakers) {
      const [first] = tail;
      if (first === undefined) this.#single.add(heads);
      else if (this.#spread.has(first)) this.#spread.get(first)!.push({ heads, tail });
      else this.#spread.set(first, [{ heads, tail }]);
    }
  }

  isBreaker(id: number): boolean {
    return this.#single.has(id);
  }

  /** How many of the last `window` tokens before `position` come after the last breaker. */
  numSince(tokens: Int32Array, position: number, window: number): number {
    for (let i = 0; i < window; i++) {
      const start = position - 1 - i;
      let longest = this.isBreaker(tokens[start]!) ? 0 : -1;
      for (const spread of this.#spread.get(tokens[start + 1]!) ?? []) {
        const { tail, heads } = spread;
        if (tail.length <= longest || tail.length > i) continue;
        if (!tail.every((id, offset) => tokens[start + 1 + offset] === id)) continue;
        spread.set ??= new TokenSet(this.vocabSize).add(heads);
        if (spread.set.has(tokens[start]!)) longest = tail.length;
      }
      if (longest >= 0) return i - longest;
    }
    return window;
  }
}

export class DryPenalties {
  readonly #breakers = new WeakMap<DryPenalty, Breakers>();
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
    const longestAllowed = breakers.numSince(tokens, position, window);
    if (longestAllowed < allowedLength) return;
    this.#findRepeats(tokens, position, window);
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
      breakers = new Breakers(dry, this.vocabSize);
      this.#breakers.set(dry, breakers);
    }
    return breakers;
  }

  /**
   * The Z-algorithm on the window read backwards: repeats[k] tokens before the position are those that end k places
   * earlier. [left, right) is the stretch reaching furthest that is known to equal the beginning.
   */
  #findRepeats(tokens: Int32Array, position: number, window: number): void {
    if (this.#repeats.length < window) this.#repeats = new Int32Array(2 * window);
    const repeats = this.#repeats;
    const last = position - 1;
    let [left, right] = [0, 0];
    for (let k = 1; k < window; k++) {
      let length = k < right ? Math.min(repeats[k - left]!, right - k) : 0;
      while (k + length < window && tokens[last - length] === tokens[last - k - length]) length++;
      if (k + length > right) [left, right] = [k, k + length];
      repeats[k] = length;
    }
  }
}
