/**
 * Bounds the tokens in a step of background sequences, because a request that arrives during the step waits for its
 * end. The bound follows from the measured cost of a row: where reading the weights dominates, many rows fit; where
 * each row adds time, few do.
 */

/** Longest step of background sequences, as a multiple of a step of one row. */
const FACTOR = 2;
const FEWEST = 4;
const MOST = 32;
/** Weight that all earlier steps keep with each new one. */
const KEPT = 0.98;
/** Most rows of a step that the cost is learnt from: larger steps are prompts, whose rows cost less each. */
const MOST_LEARNT = 64;

export class BackgroundPace {
  /** Decaying sums over steps: their number, rows, milliseconds, and products. */
  #count = 0;
  #rows = 0;
  #ms = 0;
  #rowsRows = 0;
  #rowsMs = 0;

  /** A step of `numRows` rows took `ms`. */
  observe(numRows: number, ms: number): void {
    if (numRows === 0 || numRows > MOST_LEARNT) return;
    this.#count = KEPT * this.#count + 1;
    this.#rows = KEPT * this.#rows + numRows;
    this.#ms = KEPT * this.#ms + ms;
    this.#rowsRows = KEPT * this.#rowsRows + numRows * numRows;
    this.#rowsMs = KEPT * this.#rowsMs + numRows * ms;
  }

  /** @param most upper bound of the result */
  tokens(most: number): number {
    return Math.min(most, MOST, Math.max(FEWEST, Math.floor(this.#rowsWithin())));
  }

  /** Rows n with start + n · row ≤ FACTOR · (start + row), by least squares. */
  #rowsWithin(): number {
    const spread = this.#count * this.#rowsRows - this.#rows * this.#rows;
    // All observed steps had the same number of rows, so the cost of one more row is unknown.
    if (spread <= 1e-6 * this.#rowsRows * this.#count) return FEWEST;
    const rowMs = (this.#count * this.#rowsMs - this.#rows * this.#ms) / spread;
    if (rowMs <= 0) return MOST;
    const startMs = Math.max(0, (this.#ms - rowMs * this.#rows) / this.#count);
    return FACTOR + ((FACTOR - 1) * startMs) / rowMs;
  }
}
