/** Keeps drafting from costing more than it wins, whatever was estimated: the time spent on finding and checking drafts is held against the time that accepted ones saved. */

/** Of each step's time: what drafting may lose in the long run, so that a text that has become predictable is noticed. */
const ALLOWANCE = 0.01;
/** Steps' time, won or lost, beyond which the past does not count: a good stretch pays for no longer bad one. */
const MOST_STEPS = 2;

export class DraftAccount {
  #balanceMs = 0;
  #limitMs = 0;

  /** A step begins that takes `stepMs` without drafts. @returns whether drafts may be looked for */
  open(stepMs: number): boolean {
    this.#limitMs = MOST_STEPS * stepMs;
    this.add(ALLOWANCE * stepMs);
    return this.#balanceMs >= 0;
  }

  /** Milliseconds won, or spent where negative. */
  add(ms: number): void {
    this.#balanceMs = Math.max(-this.#limitMs, Math.min(this.#limitMs, this.#balanceMs + ms));
  }
}
