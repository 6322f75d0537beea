/** The intervals and time limits of supervision. */

export interface FleetTiming {
  /** Time between two scrapes of an instance's metrics. */
  readonly scrapeMs: number;
  /** Time between two health checks of an instance. */
  readonly healthMs: number;
  /** Time limit of a health check, after which the instance is suspect. Busy engines can take 1.4 s (measured). */
  readonly healthTimeoutMs: number;
  /** Time limit of every other request to an engine. */
  readonly answerTimeoutMs: number;
  /** Failed health checks in a row after which an instance counts as failed, even if it accepts connections. */
  readonly maxFailedChecks: number;
  /** Time after which an unhealthy process is ended and restarted. */
  readonly hungAfterMs: number;
  /** First and longest pause before a restart; each crash doubles the pause. */
  readonly restartMs: number;
  readonly maxRestartMs: number;
  /** This many crashes within the window, or this many starts in a row that never became ready, are a crash loop. */
  readonly maxCrashes: number;
  readonly crashWindowMs: number;
  /** First and longest pause after a crash loop; each further loop doubles the pause. */
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
