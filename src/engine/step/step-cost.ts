/** Time of a step by its number of rows: measured at start-up, then updated by every decoding step. */

/** Numbers of rows at which the cost is known, for a device whose cost has no jumps. */
const EVEN_ROWS = [1, 2, 4, 8, 16, 32];

/** Upper bound of the step sizes measured at start-up: steps with drafts rarely have more rows. */
export const MAX_MEASURED_ROWS = 32;

/** Weight of an observation at the two anchors around it, and at all others. */
const RATE = 0.1;
const SPILL = 0.005;
/** Outlier clamp, as a multiple of the estimate: slow steps are accidents more often than fast ones. */
const MOST_RATIO = 1.25;

/** Steps measured for each number of rows. The fastest counts, because a slow one is an accident. */
const MEASURED_STEPS = 2;

/** @returns milliseconds of the fastest of the measured steps */
export async function fastestMs(step: () => Promise<void>): Promise<number> {
  let fastest = Number.POSITIVE_INFINITY;
  for (let round = 0; round < MEASURED_STEPS; round++) {
    const startMs = performance.now();
    await step();
    fastest = Math.min(fastest, performance.now() - startMs);
  }
  return fastest;
}

export class StepCost {
  readonly #anchors: readonly number[];
  readonly #ms: Float64Array;

  /**
   * @param msOf milliseconds of a step of `numRows` rows
   * @param maxRows largest number of rows that will be asked for
   * @param anchors ascending numbers of rows, from 1 on, at which the cost is known; it is linear in between
   * (`Backend.stepCostRows`)
   */
  constructor(msOf: (numRows: number) => number, maxRows: number, anchors: readonly number[] = EVEN_ROWS) {
    this.#anchors = anchors.filter((rows) => rows <= maxRows);
    this.#ms = Float64Array.from(this.#anchors, msOf);
    this.#straighten();
  }

  /** @param msOf computes a step of `numRows` rows and resolves with its milliseconds */
  static async measured(
    msOf: (numRows: number) => Promise<number>,
    maxRows: number,
    anchors: readonly number[],
  ): Promise<StepCost> {
    const cost = new StepCost(() => 0, maxRows, anchors);
    await cost.measure(msOf);
    return cost;
  }

  /** Measures again, in place: drafters hold this object. */
  async measure(msOf: (numRows: number) => Promise<number>): Promise<void> {
    for (const [i, numRows] of this.#anchors.entries()) this.#ms[i] = await msOf(numRows);
    this.#straighten();
  }

  /** More rows never cost less; a single slow measurement does not count. */
  #straighten(): void {
    for (let i = this.#ms.length - 2; i >= 0; i--) this.#ms[i] = Math.min(this.#ms[i]!, this.#ms[i + 1]!);
  }

  /** Largest measured number of rows; beyond it the cost is extrapolated. */
  get maxRows(): number {
    return this.#anchors.at(-1)!;
  }

  ms(numRows: number): number {
    const { left, share } = this.#place(numRows);
    const last = this.#anchors.length - 1;
    if (last === 0) return this.#ms[0]! * numRows;
    return this.#ms[left]! + share * (this.#ms[left + 1]! - this.#ms[left]!);
  }

  /** A step of `numRows` rows took `ms`. */
  observe(numRows: number, ms: number): void {
    const { left, share } = this.#place(numRows);
    if (share > 1) return;
    const ratio = Math.min(MOST_RATIO, ms / this.ms(numRows));
    for (let i = 0; i < this.#ms.length; i++) {
      const weight = i === left ? 1 - share : i === left + 1 ? share : 0;
      this.#ms[i]! *= 1 + (SPILL + (RATE - SPILL) * weight) * (ratio - 1);
    }
  }

  /** The anchors around `numRows`, and its place between them; share > 1 beyond the last anchor. */
  #place(numRows: number): { left: number; share: number } {
    const anchors = this.#anchors;
    let left = 0;
    while (left < anchors.length - 2 && anchors[left + 1]! <= numRows) left++;
    const right = anchors[left + 1] ?? anchors[left]! + 1;
    return { left, share: (numRows - anchors[left]!) / (right - anchors[left]!) };
  }
}
