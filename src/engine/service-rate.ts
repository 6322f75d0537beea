/** How fast requests end, for Retry-After. */

/** How far back it looks. */
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

  /** A request came where there was none: the pause before it says nothing about how fast they end. */
  countFirst(): void {
    this.#busySinceMs = this.#nowMs();
  }

  countEnded(): void {
    this.#endedAtMs.push(this.#nowMs());
    if (this.#endedAtMs.length > MAX_SAMPLES) this.#endedAtMs.shift();
  }

  /** How long `numRequests` take at the recent rate, in whole seconds from 1 to 60. */
  secondsFor(numRequests: number): number {
    const nowMs = this.#nowMs();
    const [oldest = 0] = this.#endedAtMs;
    const isFull = this.#endedAtMs.length === MAX_SAMPLES;
    const sinceMs = Math.max(this.#busySinceMs, nowMs - WINDOW_MS, isFull ? oldest : 0);
    const spanSeconds = (nowMs - sinceMs) / 1000;
    const numEnded = this.#endedAtMs.filter((endedAtMs) => endedAtMs >= sinceMs).length;
    // Where none has ended yet, as long again as it has been.
    const seconds = numEnded === 0 ? spanSeconds : (numRequests * spanSeconds) / numEnded;
    return Math.min(MAX_SECONDS, Math.max(1, Math.ceil(seconds)));
  }
}
