/** The arrival of requests: from clients that wait for answers, or at times independent of the server. */
import { Random } from "./random.js";

export type Load =
  /** Clients that send their next request after each answer; their starts are spread evenly over the ramp. */
  | { readonly kind: "closed"; readonly concurrency: number; readonly rampMs: number }
  /**
   * Gaps between arrivals are gamma-distributed with this shape: 1 is a Poisson process, lower values are burstier,
   * higher ones more even. Undefined: equal gaps.
   */
  | { readonly kind: "open"; readonly ratePerS: number; readonly burstiness: number | undefined }
  /** Arrival times of a trace, in milliseconds from the start of the run, ascending. */
  | { readonly kind: "replay"; readonly atMs: readonly number[] };

/** Arrival times of open loads and traces, up to both limits. @returns milliseconds after the start, ascending */
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
