/** Reproducible randomness, so that a benchmark sends the same requests to every server in every run. */
import { generator } from "../../core/random.js";

/** Combines several numbers into one seed; other numbers or another order give another seed. */
export function seedFrom(...parts: readonly number[]): number {
  return parts.reduce((seed, part) => generator(Math.imul(seed + part + 1, 0x9e3779b1))(), 0);
}

/** Random values of the kinds that benchmarks need. */
export class Random {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = generator(seed);
  }

  /** In (0, 1). */
  uniform(): number {
    return (this.#next() + 0.5) / 2 ** 32;
  }

  /** An integer in [min, max]. */
  integer(min: number, max: number): number {
    return min + (this.#next() % (max - min + 1));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.#next() % choices.length]!;
  }

  /** Standard normal (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /**
   * Gamma-distributed with this shape and scale 1 (Marsaglia and Tsang 2000; for shapes below 1, multiplied by a power
   * of a uniform draw).
   */
  gamma(shape: number): number {
    if (shape < 1) return this.gamma(shape + 1) * this.uniform() ** (1 / shape);
    const d = shape - 1 / 3;
    for (;;) {
      const x = this.normal();
      const v = (1 + x / Math.sqrt(9 * d)) ** 3;
      if (v > 0 && Math.log(this.uniform()) < x ** 2 / 2 + d - d * v + d * Math.log(v)) return d * v;
    }
  }
}
