/** One vector out of a prompt's hidden states (after the final norm): their mean, or the last one. Not normalised. */
import type { Pooling } from "../../model/pooling.js";

export class Pooler {
  readonly #pooling: Pooling;
  readonly #numPositions: number;
  /** Doubles, added in the order of positions: how a prompt is cut into steps does not change a bit. */
  #sums: Float64Array | undefined;
  #numAdded = 0;

  constructor(pooling: Pooling, numPositions: number) {
    this.#pooling = pooling;
    this.#numPositions = numPositions;
  }

  /** Whether every position must be computed, so that none may come from the prefix cache. */
  get needsAll(): boolean {
    return this.#pooling === "mean";
  }

  /** Positions that were taken in before the sequence was pre-empted are not wanted again. */
  wants(position: number): boolean {
    return this.#pooling === "mean" ? position >= this.#numAdded : position === this.#numPositions - 1;
  }

  /** @param hidden [width], of the first wanted position that was not added yet; it is copied */
  add(hidden: Float32Array): void {
    this.#sums ??= new Float64Array(hidden.length);
    for (let i = 0; i < hidden.length; i++) this.#sums[i]! += hidden[i]!;
    this.#numAdded++;
  }

  /** [width], once every wanted position was added. */
  result(): Float64Array {
    return (this.#sums ?? new Float64Array(0)).map((sum) => sum / this.#numAdded);
  }
}
