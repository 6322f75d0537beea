/**
 * Background steps leave time free while other requests come and go. An engine that fills every pause with background
 * work occupies the caches and cores that the next request needs, and keeps the threads that speak HTTP waiting. So it
 * rests as long as it worked, and an arrival ends a rest at once.
 */

/** Time after the last foreground sequence during which more are expected. */
const RECENT_MS = 5000;
/** Rest for each millisecond of background steps: half of the time is left free. */
const REST_SHARE = 1;
/** Shortest rest. Timers are exact only to a millisecond or two, so short steps share one rest. */
const LEAST_REST_MS = 2;
/** Upper bound of one rest, and of the time by which late timers may shorten later rests. */
const MOST_REST_MS = 1000;

export class BackgroundRest {
  #owedMs = 0;
  #othersAtMs = Number.NEGATIVE_INFINITY;

  /** The engine holds a sequence that is not background work. */
  sawOthers(nowMs: number): void {
    this.#othersAtMs = nowMs;
  }

  /** A step of background sequences took `ms`. */
  worked(ms: number): void {
    this.#owedMs = Math.min(MOST_REST_MS, this.#owedMs + REST_SHARE * ms);
  }

  /** @returns milliseconds to rest now; 0: none */
  restMs(nowMs: number): number {
    if (nowMs - this.#othersAtMs > RECENT_MS) {
      this.#owedMs = 0;
      return 0;
    }
    return this.#owedMs < LEAST_REST_MS ? 0 : this.#owedMs;
  }

  /** A rest took `ms`, longer or shorter than asked. */
  rested(ms: number): void {
    this.#owedMs = Math.max(-MOST_REST_MS, this.#owedMs - ms);
  }
}
