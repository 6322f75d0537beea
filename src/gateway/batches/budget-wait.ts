/** How long lines of a batch wait for a budget that requests under way have reserved. */

/** Others than the batch's lines tell nobody when they end. */
const LOOK_MS = 250;
/** Requests of others may hold a budget for ever, each for a while. */
const MOST_MS = 10 * 60_000;

export class BudgetWait {
  /** No line is sent before. */
  untilMs = 0;
  #sinceMs: number | undefined;

  /**
   * A line was refused.
   *
   * @param hasOthers lines of the batch are under way, whose ends bring some of the budget back
   * @returns whether the line is to be sent again
   */
  mayWait(nowMs: number, hasOthers: boolean): boolean {
    if (hasOthers) this.#sinceMs = undefined;
    else this.#sinceMs ??= nowMs;
    if (nowMs - (this.#sinceMs ?? nowMs) >= MOST_MS) return false;
    this.untilMs = nowMs + LOOK_MS;
    return true;
  }

  /** A line has ended, and its reservation is settled. */
  settled(): void {
    this.untilMs = 0;
    this.#sinceMs = undefined;
  }
}
