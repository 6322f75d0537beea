/**
 * An account of drafting in milliseconds: time spent on finding and verifying drafts against time saved by accepted
 * tokens. It stops drafting that loses, whatever the estimates say.
 */

/** Long-run loss that is allowed, as a share of step time: it pays for noticing that a text has become predictable. */
const ALLOWANCE = 0.01;
/**
 * Bounds of the balance, in step times, both ways: a good stretch cannot pay for a long bad one, and a bad one is
 * forgiven. A single long rejected draft must not exhaust it, or a text that is mostly copied gets no drafts for
 * hundreds of steps.
 */
const MOST_LOST = 4;
const MOST_WON = 8;

export class DraftAccount {
  #balanceMs = 0;
  #stepMs = 0;

  /** A step begins, of `stepMs` milliseconds without drafts. @returns whether it may draft */
  open(stepMs: number): boolean {
    this.#stepMs = stepMs;
    this.add(ALLOWANCE * stepMs);
    return this.#balanceMs >= 0;
  }

  /** @param ms time saved; negative: time spent */
  add(ms: number): void {
    this.#balanceMs = Math.max(-MOST_LOST * this.#stepMs, Math.min(MOST_WON * this.#stepMs, this.#balanceMs + ms));
  }
}
