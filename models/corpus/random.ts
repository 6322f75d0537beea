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
  /** One of the entries, each as likely as its weight says. */
  weighted<T>(entries: readonly (readonly [weight: number, item: T])[]): T;
}

const WARM_UP_DRAWS = 12;

/**
 * Small fast chaotic generator (Doty-Humphrey's sfc32): 128 bits of state, so that the chats of two seeds do not meet
 * by chance as 32 bits would.
 *
 * @param seed whole number below 2^53
 * @param index which of the seed's sequences, below 2^53
 */
export function createRandom(seed: number, index = 0): Random {
  let a = seed >>> 0;
  let b = index >>> 0;
  let c = Math.floor(seed / 2 ** 32) ^ Math.imul(Math.floor(index / 2 ** 32) + 1, 0x9e3779b9);
  let counter = 1;
  const draw = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  for (let round = 0; round < WARM_UP_DRAWS; round++) draw();

  const next = (): number => draw() / 2 ** 32;
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
  const weighted = <T>(entries: readonly (readonly [number, T])[]): T => {
    let roll = next() * entries.reduce((total, [weight]) => total + weight, 0);
    const found = entries.find(([weight]) => {
      roll -= weight;
      return roll < 0;
    });
    return (found ?? (entries.at(-1) as readonly [number, T]))[1];
  };
  return { next, int, pick, sample, weighted, isChance: (probability) => next() < probability };
}
