/** The fleet's clockwork: how often it looks, how long it waits, how it restarts. */

export interface FleetTiming {
  /** Between two scrapes of an instance's metrics. */
  readonly scrapeMs: number;
  /** Between two questions for an instance's health. */
  readonly healthMs: number;
  /** An instance whose answer takes longer is suspect: busy ones have been seen to take 1.4 s. */
  readonly healthTimeoutMs: number;
  /** Any other answer that takes longer is none. */
  readonly answerTimeoutMs: number;
  /** Health checks in a row that must fail before an instance that still accepts connections has failed. */
  readonly maxFailedChecks: number;
  /** A process that is alive but unhealthy for so long is ended and started again. */
  readonly hungAfterMs: number;
  /** First and longest pause before a restart; each crash doubles it. */
  readonly restartMs: number;
  readonly maxRestartMs: number;
  /** So many crashes within the window, or starts in a row that never became ready, are a crash loop. */
  readonly maxCrashes: number;
  readonly crashWindowMs: number;
  /** First and longest pause after a crash loop; each further one doubles it. */
  readonly giveUpMs: number;
  readonly maxGiveUpMs: number;
}

export const DEFAULT_TIMING: FleetTiming = {
  scrapeMs: 1000,
  healthMs: 1000,
  healthTimeoutMs: 2000,
  answerTimeoutMs: 5000,
  maxFailedChecks: 3,
  hungAfterMs: 30_000,
  restartMs: 500,
  maxRestartMs: 30_000,
  maxCrashes: 5,
  crashWindowMs: 120_000,
  giveUpMs: 60_000,
  maxGiveUpMs: 900_000,
};
