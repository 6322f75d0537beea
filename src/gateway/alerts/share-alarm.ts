/**
 * Finds a share of requests, such as that of errors, that has changed for good: a cumulative sum of log likelihood
 * ratios between the usual share and a clearly different one. Without a change, the mean time to an alarm is at least
 * e^h hours. Requests of real series come in bursts; where hours scatter more than coin tosses would, each request
 * counts for less.
 */

export interface ShareRules<Hour> {
  /** Requests of an hour, and those among them whose share is watched. */
  readonly allOf: (hour: Hour) => number;
  readonly someOf: (hour: Hour) => number;
  readonly direction: "rises" | "falls";
  /** Hours with fewer requests are left out. */
  readonly minRequests: number;
}

/** e^11.4 hours are ten years. */
const THRESHOLD = Math.log(10 * 365.25 * 24);
/** Hours that the sum looks back on. */
const RECENT_HOURS = 24;
const MIN_BASE_HOURS = 24;
/** The change to detect: a rise to twice the share, and by at least this much; a fall to half the share. */
const MIN_CHANGE = 0.05;

interface ChangedShare {
  readonly share: number;
  readonly expected: number;
}

/**
 * @param hours from the oldest to the one to be judged
 * @returns undefined if the share has not changed, or the last hour does not show it
 */
export function shareAlarm<Hour>(
  hours: readonly Hour[],
  { direction, minRequests, allOf, someOf }: ShareRules<Hour>,
): ChangedShare | undefined {
  const last = hours.at(-1);
  if (last === undefined || allOf(last) < minRequests) return undefined;
  const isJudged = (hour: Hour): boolean => allOf(hour) >= minRequests;
  const base = hours.slice(0, -RECENT_HOURS).filter(isJudged);
  if (base.length < MIN_BASE_HOURS) return undefined;
  let [all, some] = [0, 0];
  for (const hour of base) {
    all += allOf(hour);
    some += someOf(hour);
  }
  const usual = (some + 0.5) / (all + 1);
  const other = direction === "rises" ? Math.max(2 * usual, usual + MIN_CHANGE) : usual / 2;
  if (other >= 1 || Math.abs(other - usual) < MIN_CHANGE / 2) return undefined;
  const share = someOf(last) / allOf(last);
  // The last hour has to show the new level too, or the alarm would outlive its cause.
  const middle = (usual + other) / 2;
  if (!(direction === "rises" ? share > middle : share < middle)) return undefined;
  const perEvent = Math.log(other / usual);
  const perOther = Math.log((1 - other) / (1 - usual));
  let chiSquare = 0;
  for (const hour of base) chiSquare += (someOf(hour) - allOf(hour) * usual) ** 2 / (allOf(hour) * usual * (1 - usual));
  // Variance of the hours, in multiples of that of independent requests.
  const scatter = Math.max(1, chiSquare / (base.length - 1));
  let sum = 0;
  for (const hour of hours.slice(-RECENT_HOURS).filter(isJudged)) {
    const events = someOf(hour);
    sum = Math.max(0, sum + (events * perEvent + (allOf(hour) - events) * perOther) / scatter);
  }
  return sum > THRESHOLD ? { share, expected: usual } : undefined;
}
