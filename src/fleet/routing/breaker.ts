/** A circuit breaker as values and functions of the time: after failures in a row an instance is left alone, then tried with one request at a time. */

export const BREAKER_STATES = ["closed", "open", "half-open"] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

export interface Breaker {
  readonly state: BreakerState;
  /** In a row. */
  readonly numFailures: number;
  /** How often it opened since it last was well, which makes it wait longer each time. */
  readonly numTrips: number;
  /** While open. */
  readonly retryAtMs: number;
}

const FAILURES_TO_OPEN = 3;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export const CLOSED: Breaker = { state: "closed", numFailures: 0, numTrips: 0, retryAtMs: 0 };

/** Whether a request may be sent. While half open its one probe is out, so no. */
export function mayTry(breaker: Breaker, nowMs: number): boolean {
  return breaker.state === "closed" || (breaker.state === "open" && nowMs >= breaker.retryAtMs);
}

/** A request is being sent. */
export function onTry(breaker: Breaker): Breaker {
  return breaker.state === "open" ? { ...breaker, state: "half-open" } : breaker;
}

/** An answer has begun: a probe may go on for minutes, in which others need not wait. What becomes of it still counts for as much as before. */
export function onFirstByte(breaker: Breaker): Breaker {
  return breaker.state === "half-open" ? { ...breaker, state: "closed", numFailures: FAILURES_TO_OPEN - 1 } : breaker;
}

export function onSuccess(): Breaker {
  return CLOSED;
}

export function onFailure(breaker: Breaker, nowMs: number): Breaker {
  const numFailures = breaker.numFailures + 1;
  if (numFailures < FAILURES_TO_OPEN) return { ...breaker, numFailures };
  // Requests that were under way when it opened tell nothing new.
  if (breaker.state === "open") return breaker;
  const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** breaker.numTrips);
  return { state: "open", numFailures, numTrips: breaker.numTrips + 1, retryAtMs: nowMs + pauseMs };
}

/** A request that ended without showing anything, for instance because its client left: a probe's place is free again. */
export function onNothingLearnt(breaker: Breaker): Breaker {
  return breaker.state === "half-open" ? { ...breaker, state: "open" } : breaker;
}
