/** The fleet's clockwork: how often it looks, how long it waits, how it restarts. */

export interface FleetTiming {
  /** Between two scrapes of an instance's metrics. */
  readonly scrapeMs: number;
  /** Scrapes from one question for health to the next, as long as all is well. */
  readonly scrapesPerHealthCheck: number;
  /** An answer that takes longer is none. */
  readonly answerTimeoutMs: number;
  /** Health checks in a row that must fail before an instance that still accepts connections gets no more requests. */
  readonly maxFailedChecks: number;
  /** A process that is alive but unhealthy for so long is ended and started again. */
  readonly hungAfterMs: number;
  /** First and longest pause before a restart; each crash doubles it. */
  readonly restartMs: number;
  readonly maxRestartMs: number;
  /** So many crashes within the window, or starts in a row that never became ready, are a crash loop. */
  readonly maxCrashes: number;
  readonly crashWindowMs: number;
}

export const DEFAULT_TIMING: FleetTiming = {
  scrapeMs: 1000,
  scrapesPerHealthCheck: 5,
  answerTimeoutMs: 5000,
  maxFailedChecks: 3,
  hungAfterMs: 60_000,
  restartMs: 500,
  maxRestartMs: 30_000,
  maxCrashes: 5,
  crashWindowMs: 120_000,
};

/** Waits, but no longer than until the signal: then it resolves too. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

/** Runs a task whose signal is aborted after a time, or with `signal`. */
export async function within<T>(
  ms: number,
  signal: AbortSignal,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limited = new AbortController();
  const abort = (): void => limited.abort();
  const timer = setTimeout(abort, ms);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    return await task(limited.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** A signal that is aborted with any of `signals`; `dispose` lets go of them. */
export function eitherOf(...signals: readonly AbortSignal[]): AbortController & { dispose(): void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  for (const signal of signals) {
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
  }
  return Object.assign(controller, {
    dispose() {
      for (const signal of signals) signal.removeEventListener("abort", abort);
    },
  });
}
