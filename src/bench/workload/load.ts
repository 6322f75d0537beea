/** How requests come: by clients that wait for their answers, or at times of their own, whatever the server does. */
import { Random } from "./random.js";

export type Load =
  /** So many clients, each sending its next request when the last one is answered; they begin evenly spread over the ramp. */
  | { readonly kind: "closed"; readonly concurrency: number; readonly rampMs: number }
  /**
   * Gaps between arrivals are gamma-distributed with this shape: 1 is a Poisson process, less comes in bursts, more is more even; undefined: all
   * gaps are the same.
   */
  | { readonly kind: "open"; readonly ratePerS: number; readonly burstiness: number | undefined }
  /** As a trace has them, in milliseconds from the start of the run on, ascending. */
  | { readonly kind: "replay"; readonly atMs: readonly number[] };

/** Of the loads that have times, as long as neither bound is reached. @returns milliseconds after the start, ascending */
export function arrivalTimes(
  load: Exclude<Load, { kind: "closed" }>,
  { numSessions, durationMs }: { readonly numSessions: number; readonly durationMs: number },
  seed: number,
): number[] {
  if (load.kind === "replay") {
    return load.atMs.slice(0, numSessions).filter((atMs) => atMs < durationMs);
  }
  const random = new Random(seed);
  const { ratePerS, burstiness } = load;
  const meanMs = 1000 / ratePerS;
  const times: number[] = [];
  for (let atMs = 0; times.length < numSessions && atMs < durationMs; ) {
    times.push(atMs);
    atMs += burstiness === undefined ? meanMs : (meanMs * random.gamma(burstiness)) / burstiness;
  }
  return times;
}

/** @example clientStarts({ kind: "closed", concurrency: 2, rampMs: 100 }) // [0, 50] */
export function clientStarts({ concurrency, rampMs }: Extract<Load, { kind: "closed" }>): number[] {
  return Array.from({ length: concurrency }, (_, client) => (rampMs * client) / concurrency);
}
