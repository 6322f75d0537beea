/** Requests that end per second, for Retry-After. */

/** Averaging window. */
const WINDOW_MS = 30_000;
const MAX_SAMPLES = 1024;
const MAX_SECONDS = 60;

export class ServiceRate {
  readonly #nowMs: () => number;
  readonly #endedAtMs: number[] = [];
  #busySinceMs = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** A request arrives at an idle engine: the rate is measured from here, since idle time says nothing about it. */
  countFirst(): void {
    this.#busySinceMs = this.#nowMs();
  }

  countEnded(): void {
    this.#endedAtMs.push(this.#nowMs());
    if (this.#endedAtMs.length > MAX_SAMPLES) this.#endedAtMs.shift();
  }

  /** Time for `numRequests` to end at the recent rate, in whole seconds from 1 to 60. */
  secondsFor(numRequests: number): number {
    const nowMs = this.#nowMs();
    const [oldest = 0] = this.#endedAtMs;
    const isFull = this.#endedAtMs.length === MAX_SAMPLES;
    const sinceMs = Math.max(this.#busySinceMs, nowMs - WINDOW_MS, isFull ? oldest : 0);
    const spanSeconds = (nowMs - sinceMs) / 1000;
    const numEnded = this.#endedAtMs.filter((endedAtMs) => endedAtMs >= sinceMs).length;
    // Before the first request has ended: assume the wait doubles.
    const seconds = numEnded === 0 ? spanSeconds : (numRequests * spanSeconds) / numEnded;
    return Math.min(MAX_SECONDS, Math.max(1, Math.ceil(seconds)));
  }
}
