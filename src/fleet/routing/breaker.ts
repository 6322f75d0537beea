/**
 * A circuit breaker as immutable values: after several failures in a row, an instance gets no requests for a while,
 * then
 * one request as a probe.
 */

export const BREAKER_STATES = ["closed", "open", "half-open"] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

export interface Breaker {
  readonly state: BreakerState;
  /** Failures in a row. */
  readonly numFailures: number;
  /** Number of openings since the last success. Each opening lasts longer. */
  readonly numTrips: number;
  /** Time at which an open breaker lets a probe through. */
  readonly retryAtMs: number;
}

const FAILURES_TO_OPEN = 3;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export const CLOSED: Breaker = { state: "closed", numFailures: 0, numTrips: 0, retryAtMs: 0 };

/** Whether a request may be sent. A half-open breaker has a probe under way, so it lets no other request through. */
export function mayTry(breaker: Breaker, nowMs: number): boolean {
  return breaker.state === "closed" || (breaker.state === "open" && nowMs >= breaker.retryAtMs);
}

/** Records that a request is about to be sent. */
export function onTry(breaker: Breaker): Breaker {
  return breaker.state === "open" ? { ...breaker, state: "half-open" } : breaker;
}

/**
 * Records that an answer has begun: a probe may run for minutes, so other requests need not wait for its end. One
 * failure still opens the breaker again.
 */
export function onFirstByte(breaker: Breaker): Breaker {
  return breaker.state === "half-open" ? { ...breaker, state: "closed", numFailures: FAILURES_TO_OPEN - 1 } : breaker;
}

export function onSuccess(): Breaker {
  return CLOSED;
}

export function onFailure(breaker: Breaker, nowMs: number): Breaker {
  const numFailures = breaker.numFailures + 1;
  if (numFailures < FAILURES_TO_OPEN) return { ...breaker, numFailures };
  // Requests that were under way when the breaker opened carry no new information.
  if (breaker.state === "open") return breaker;
  const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** breaker.numTrips);
  return { state: "open", numFailures, numTrips: breaker.numTrips + 1, retryAtMs: nowMs + pauseMs };
}

/** Records a request whose end is neutral about the instance, such as a departed client: another probe may follow. */
export function onNothingLearnt(breaker: Breaker): Breaker {
  return breaker.state === "half-open" ? { ...breaker, state: "open" } : breaker;
}
