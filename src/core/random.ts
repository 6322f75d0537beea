/** Reproducible random numbers (mulberry32): the same for the same seed, on every machine. */

/** A generator of 32-bit values. */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
}

/** A generator of values in [0, 1). */
export function uniform(seed: number): () => number {
  const next = generator(seed);
  return () => next() / 2 ** 32;
}
