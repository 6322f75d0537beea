/** Keeps drafting from costing more than it wins, whatever was estimated: the time spent on finding and checking drafts is held against the time that accepted ones saved. */

/** Of each step's time: what drafting may lose in the long run, so that a text that has become predictable is noticed. */
const ALLOWANCE = 0.01;
/**
 * Steps' time beyond which the past does not count: a good stretch pays for no long bad one, and a bad one is forgiven. A single long draft
 * that fails must not use all of it up, or a text of which most is copied is given up for hundreds of steps.
 */
const MOST_LOST = 4;
const MOST_WON = 8;

export class DraftAccount {
  #balanceMs = 0;
  #stepMs = 0;

  /** A step begins that takes `stepMs` without drafts. @returns whether drafts may be looked for */
  open(stepMs: number): boolean {
    this.#stepMs = stepMs;
    this.add(ALLOWANCE * stepMs);
    return this.#balanceMs >= 0;
  }

  /** Milliseconds won, or spent where negative. */
  add(ms: number): void {
    this.#balanceMs = Math.max(-MOST_LOST * this.#stepMs, Math.min(MOST_WON * this.#stepMs, this.#balanceMs + ms));
  }
}
