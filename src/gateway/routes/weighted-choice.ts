/**
 * Chooses among weighted options: always the same one for a session, and in exact shares over requests without a
 * session.
 */
import { createHash } from "node:crypto";

export interface Weighted {
  readonly model: string;
  /** Share relative to the sum of all weights; 0: never. */
  readonly weight: number;
}

/** Uniform in (0, 1), from a text. */
export function uniformOf(text: string): number {
  const hash = createHash("sha256").update(text).digest();
  // 48 bits, shifted by a half so that neither end is reached.
  return (hash.readUIntBE(0, 6) + 0.5) / 2 ** 48;
}

/**
 * Weighted rendezvous hashing: each option draws an exponential time with its weight as the rate, and the earliest
 * wins, so it wins with exactly its share of the weights. When a weight changes, only sessions that enter or leave that
 * option move.
 *
 * @param key the session, and the name of the split, so that several splits are independent
 * @param options at least one with a weight above 0
 */
export function choiceOf(key: string, options: readonly Weighted[]): Weighted {
  let first: Weighted | undefined;
  let firstTime = Number.POSITIVE_INFINITY;
  for (const option of options) {
    if (option.weight <= 0) continue;
    const time = -Math.log(uniformOf(`${key}\n${option.model}`)) / option.weight;
    if (time < firstTime) [first, firstTime] = [option, time];
  }
  return first ?? options[0]!;
}

/**
 * Smooth weighted round robin: after any number of turns, each of two options has had its share to within one turn,
 * each of more options to within a few. A random choice would be off by the square root of the number of turns.
 */
export class SmoothRoundRobin {
  readonly #credit = new Map<string, number>();

  /** @param options at least one with a weight above 0 */
  next(options: readonly Weighted[]): Weighted {
    const total = options.reduce((sum, { weight }) => sum + weight, 0);
    let best = options[0]!;
    let bestCredit = Number.NEGATIVE_INFINITY;
    for (const option of options) {
      if (option.weight <= 0) continue;
      const credit = (this.#credit.get(option.model) ?? 0) + option.weight;
      this.#credit.set(option.model, credit);
      if (credit > bestCredit) [best, bestCredit] = [option, credit];
    }
    this.#credit.set(best.model, bestCredit - total);
    return best;
  }
}
