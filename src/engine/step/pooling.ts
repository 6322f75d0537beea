/**
 * Pools a prompt's hidden states (after the final norm) into one vector: their mean, the first or the last. Not
 * normalised.
 */
import type { Pooling } from "../../model/description/pooling.js";

export class Pooler {
  readonly #pooling: Pooling;
  readonly #numPositions: number;
  /** [width], doubles, added in the order of positions, so that chunks of a prompt do not change a bit. */
  #sums: Float64Array | undefined;
  #numAdded = 0;

  constructor(pooling: Pooling, numPositions: number) {
    this.#pooling = pooling;
    this.#numPositions = numPositions;
  }

  /** Every position must be computed, so none may come from the prefix cache. */
  get needsAll(): boolean {
    return this.#pooling !== "last";
  }

  /** False for positions added before the sequence was pre-empted. */
  wants(position: number): boolean {
    if (this.#pooling === "mean") return position >= this.#numAdded;
    if (this.#pooling === "cls") return position === 0 && this.#numAdded === 0;
    return position === this.#numPositions - 1;
  }

  /** @param hidden [width] of the next wanted position; copied */
  add(hidden: Float32Array): void {
    this.#sums ??= new Float64Array(hidden.length);
    for (let i = 0; i < hidden.length; i++) this.#sums[i]! += hidden[i]!;
    this.#numAdded++;
  }

  /** [width]; call after every wanted position was added. */
  result(): Float64Array {
    return (this.#sums ?? new Float64Array(0)).map((sum) => sum / this.#numAdded);
  }
}
