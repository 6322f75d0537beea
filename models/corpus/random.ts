/** Seeded randomness for the corpus: the same seed gives the same choices on every machine. Not for secrets. */

export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** Uniform integer in [min, max], both ends included. */
  int(min: number, max: number): number;
  isChance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** `numItems` distinct items in random order (all of them when there are fewer). */
  sample<T>(items: readonly T[], numItems: number): T[];
}

/** One well-mixed 32-bit seed from two numbers (the finaliser of MurmurHash3), so that neighbours do not correlate. */
export function mixSeeds(first: number, second: number): number {
  let hash = Math.imul(first ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(second + 0x7f4a7c15, 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Weyl sequence through a multiply-xor mixer (mulberry32): 32 bits of state are plenty for one dialogue. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const int = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  const pick = <T>(items: readonly T[]): T => {
    if (items.length === 0) throw new RangeError("expected a list with at least one item, got an empty one");
    return items[int(0, items.length - 1)] as T;
  };
  const sample = <T>(items: readonly T[], numItems: number): T[] => {
    const pool = [...items];
    const chosen: T[] = [];
    while (chosen.length < numItems && pool.length > 0) {
      chosen.push(...pool.splice(int(0, pool.length - 1), 1));
    }
    return chosen;
  };
  return { next, int, pick, sample, isChance: (probability) => next() < probability };
}
