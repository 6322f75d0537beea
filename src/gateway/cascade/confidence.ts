/**
 * Statistics that hold at any time, however often they are read: a confidence sequence for a mean, and a detector of a
 * mean above a bound.
 */

/**
 * Running sums of an empirical-Bernstein confidence sequence (Waudby-Smith and Ramdas, 2024, theorem 2). All values lie
 * in [0, 1].
 */
export interface MeanState {
  count: number;
  sum: number;
  /** Σ (x − mean before it)², with a prior of one quarter. */
  squares: number;
  weightSum: number;
  weightedSum: number;
  variation: number;
}

export const newMean = (): MeanState => ({
  count: 0,
  sum: 0,
  squares: 0,
  weightSum: 0,
  weightedSum: 0,
  variation: 0,
});

/** Largest bet: at 1 the penalty is infinite. */
const MAX_WEIGHT = 0.75;

/** @param alpha the probability that the interval ever misses the mean */
export function addToMean(state: MeanState, x: number, alpha: number): void {
  const before = (0.5 + state.sum) / (state.count + 1);
  const variance = (0.25 + state.squares) / (state.count + 1);
  const t = state.count + 1;
  const weight = Math.min(MAX_WEIGHT, Math.sqrt((2 * Math.log(2 / alpha)) / (variance * t * Math.log(1 + t))));
  state.count = t;
  state.sum += x;
  state.weightSum += weight;
  state.weightedSum += weight * x;
  state.variation += (x - before) ** 2 * (-Math.log(1 - weight) - weight);
  const after = (0.5 + state.sum) / (t + 1);
  state.squares += (x - after) ** 2;
}

export interface MeanEstimate {
  /** The plain mean, which is unbiased; NaN without values. */
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

export function meanOf(state: MeanState, alpha: number): MeanEstimate {
  if (state.count === 0) return { mean: Number.NaN, low: 0, high: 1 };
  const middle = state.weightedSum / state.weightSum;
  const half = (Math.log(2 / alpha) + state.variation) / state.weightSum;
  return { mean: state.sum / state.count, low: Math.max(0, middle - half), high: Math.min(1, middle + half) };
}

/** Means that the detector bets on: their distance above the bound, as shares of the way to 1. */
const ALTERNATIVES = [0.02, 0.06, 0.15, 0.4, 0.9] as const;
/** A bet loses at most this much. */
const MAX_LOSS = 0.95;
/** Far above any alarm, and still a number in JSON. */
const MOST_CAPITAL = 1e12;

/** One capital for each alternative. */
export type AlarmState = number[];

export const newAlarm = (alternatives: readonly number[] = ALTERNATIVES): AlarmState => alternatives.map(() => 1);

/**
 * An e-detector (Shin, Ramdas and Rinaldo, 2024) of the CUSUM kind: for each alternative, a bet that the mean is above
 * the bound, which starts anew whenever it is below its stake. While the mean is at most the bound, the average capital
 * reaches `1 / alpha` once in at least that many values. It forgets a good past, so a change for the worse shows soon.
 *
 * @param x in [0, 1]
 * @param bound above 0 and below 1
 * @param alternatives those of `newAlarm`
 */
export function addToAlarm(
  state: AlarmState,
  x: number,
  bound: number,
  alternatives: readonly number[] = ALTERNATIVES,
): void {
  for (const [i, share] of alternatives.entries()) {
    // The bet that grows fastest if values are 0 and 1, and 1 with this probability.
    const alternative = bound + share * (1 - bound);
    const stake = Math.min(MAX_LOSS / bound, (alternative - bound) / (bound * (1 - bound)));
    state[i] = Math.min(MOST_CAPITAL, Math.max(1, state[i]!) * (1 + stake * (x - bound)));
  }
}

/** The average capital; an alarm is due at `1 / alpha`. */
export const evidenceOf = (state: AlarmState): number => state.reduce((sum, each) => sum + each, 0) / state.length;
