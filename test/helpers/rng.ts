/** A small seeded generator for tests. */
import { uniform } from "../../src/core/random.js";

export class TestRng {
  /** In [0, 1). */
  readonly next: () => number;

  constructor(seed: number) {
    this.next = uniform(seed);
  }

  /** An integer in [min, max]. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.int(0, choices.length - 1)]!;
  }
}
