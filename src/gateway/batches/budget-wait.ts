/** Bounds the wait of a batch's lines for a budget that running requests have reserved. */

/** Interval at which a batch tries a budget again: requests outside the batch do not report their end. */
const LOOK_MS = 250;
/** Longest wait, since other requests may reserve the budget one after another forever. */
const MOST_MS = 10 * 60_000;

export class BudgetWait {
  /** No line of the batch is sent before this time. */
  untilMs = 0;
  #sinceMs: number | undefined;

  /**
   * Reports that a line was refused.
   *
   * @param hasOthers whether other lines of the batch are under way, whose ends free some of the budget
   * @returns whether the line is to be sent again
   */
  mayWait(nowMs: number, hasOthers: boolean): boolean {
    if (hasOthers) this.#sinceMs = undefined;
    else this.#sinceMs ??= nowMs;
    if (nowMs - (this.#sinceMs ?? nowMs) >= MOST_MS) return false;
    this.untilMs = nowMs + LOOK_MS;
    return true;
  }

  /** Reports that a line has ended and its reservation is settled. */
  settled(): void {
    this.untilMs = 0;
    this.#sinceMs = undefined;
  }
}
