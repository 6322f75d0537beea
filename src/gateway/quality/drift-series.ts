/**
 * Finds the moment from which the mean of a series is above its earlier level. A baseline is learned from the past and
 * goes on learning; an e-detector bets that the mean is above the baseline's upper bound. Samples since the detector
 * was last at its stake belong to no baseline yet: they are either noise, and join it when the detector is back, or the
 * beginning of the drift. Hours of the day, and weekends, may have means of their own.
 */
import { type AlarmState, addToAlarm, evidenceOf, newAlarm } from "../cascade/confidence.js";

interface Sums {
  count: number;
  sum: number;
  squares: number;
  /** Counts and sums of each part of the week. */
  readonly counts: number[];
  readonly sums: number[];
}

export interface SeriesState {
  baseline: Sums & {
    firstMs: number;
    /** When each part of the week first had a sample; 0: not yet. */
    readonly partFirstMs: number[];
  };
  /** Samples since the detector was last at its stake. */
  recent: Sums & { sinceMs: number };
  alarm: AlarmState;
}

export interface Drift {
  /** When the detector was last at its stake: the change came at about that time, or soon after. */
  readonly sinceMs: number;
  /** Mean since then, the number of its samples, and the mean before. */
  readonly mean: number;
  readonly count: number;
  readonly expected: number;
}

/**
 * Bets on small changes too: a rise of two points should show within hundreds of samples. Shares of the way from the
 * bound to 1.
 */
const ALTERNATIVES = [0.004, 0.01, 0.02, 0.05, 0.12, 0.3, 0.7] as const;
/** A baseline needs at least this many samples, and a whole day. */
const MIN_BASELINE = 500;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Chance that the true mean is ever above the baseline's bound, for each series. */
const BASELINE_MISS = 1e-3;
/** Samples at which the bound is narrowest for its chance. */
const TUNED_FOR = 20_000;
/** A smaller rise does not count: real traffic is never quite still. */
const TOLERANCE = 0.003;
const MOST = 0.98;

const PART_HOURS = 4;
const PARTS_OF_DAY = 24 / PART_HOURS;
/** Working days and weekends, in UTC. */
const NUM_PARTS = 2 * PARTS_OF_DAY;
/**
 * Until a part of the week has this many samples, and its first occurrence is over, its samples join the baseline
 * unjudged.
 */
const MIN_PART = 100;
/** Standard errors by which a part's mean must differ from that of all parts to count as its own. */
const PART_ERRORS = 3;

const newSums = (): Sums => ({
  count: 0,
  sum: 0,
  squares: 0,
  counts: new Array<number>(NUM_PARTS).fill(0),
  sums: new Array<number>(NUM_PARTS).fill(0),
});

export const newSeries = (): SeriesState => ({
  baseline: { ...newSums(), firstMs: 0, partFirstMs: new Array<number>(NUM_PARTS).fill(0) },
  recent: { ...newSums(), sinceMs: 0 },
  alarm: newAlarm(ALTERNATIVES),
});

function add(sums: Sums, x: number, part: number): void {
  sums.count++;
  sums.sum += x;
  sums.squares += x * x;
  sums.counts[part]!++;
  sums.sums[part]! += x;
}

function merge(sums: Sums, others: Sums): void {
  sums.count += others.count;
  sums.sum += others.sum;
  sums.squares += others.squares;
  for (let part = 0; part < NUM_PARTS; part++) {
    sums.counts[part]! += others.counts[part]!;
    sums.sums[part]! += others.sums[part]!;
  }
}

function partOfWeek(atMs: number): number {
  const days = atMs / DAY_MS;
  // The first of January 1970 was a Thursday.
  const weekday = (Math.floor(days) + 4) % 7;
  const isWeekend = weekday === 0 || weekday === 6;
  return Math.floor((days % 1) * PARTS_OF_DAY) + (isWeekend ? PARTS_OF_DAY : 0);
}

const meanOf = ({ count, sum }: Sums): number => (count === 0 ? 0 : sum / count);

/** How far a part's mean is from that of the whole week, if the difference is clear, and the standard error. */
function shiftOf({ counts, sums }: Sums, part: number, mean: number, variance: number): number {
  const shift = sums[part]! / counts[part]! - mean;
  const error = Math.sqrt(variance / counts[part]!);
  return Math.abs(shift) > PART_ERRORS * error ? shift + error : 0;
}

/**
 * The upper bound for the mean: the end of an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and
 * Ramdas, 2024, theorem 2.2), which holds at all times together, plus the tolerance, plus the usual deviation at this
 * time of the week.
 */
function boundOf(baseline: Sums, part: number): number {
  const { count, squares } = baseline;
  const mean = meanOf(baseline);
  // A first value of a quarter, the largest variance: no failure so far does not prove that none will come.
  const variance = (count * Math.max(0, squares / count - mean * mean) + 0.25) / (count + 1);
  const log = -2 * Math.log(BASELINE_MISS);
  const rho2 = (log + Math.log(log + 1)) / TUNED_FOR;
  const scaled = count * rho2 + 1;
  const half = Math.sqrt(
    ((2 * variance * scaled) / (count * count * rho2)) * Math.log(Math.sqrt(scaled) / BASELINE_MISS),
  );
  return Math.min(MOST, mean + half + TOLERANCE + shiftOf(baseline, part, mean, variance));
}

export const isLearned = ({ baseline }: SeriesState, nowMs: number): boolean =>
  baseline.count >= MIN_BASELINE && nowMs - baseline.firstMs >= DAY_MS;

export const expectedOf = ({ baseline }: SeriesState): number => meanOf(baseline);

/**
 * @param x in [0, 1], larger is worse
 * @param threshold samples of the series with at most one expected false alarm
 * @returns a newly found drift; the series then looks for the next one, on the same baseline
 */
export function addToSeries(state: SeriesState, x: number, atMs: number, threshold: number): Drift | undefined {
  const { baseline, recent } = state;
  const part = partOfWeek(atMs);
  if (baseline.partFirstMs[part] === 0) baseline.partFirstMs[part] = atMs;
  const isFirstTime = atMs - baseline.partFirstMs[part]! < PART_HOURS * HOUR_MS;
  if (!isLearned(state, atMs) || isFirstTime || baseline.counts[part]! < MIN_PART) {
    if (baseline.count === 0) baseline.firstMs = atMs;
    add(baseline, x, part);
    if (recent.count === 0) recent.sinceMs = atMs;
    return undefined;
  }
  addToAlarm(state.alarm, x, boundOf(baseline, part), ALTERNATIVES);
  add(recent, x, part);
  if (Math.max(...state.alarm) <= 1) {
    merge(baseline, recent);
    state.recent = { ...newSums(), sinceMs: atMs };
    return undefined;
  }
  if (evidenceOf(state.alarm) < threshold) return undefined;
  const drift = { sinceMs: recent.sinceMs, mean: meanOf(recent), count: recent.count, expected: meanOf(baseline) };
  state.recent = { ...newSums(), sinceMs: atMs };
  state.alarm = newAlarm(ALTERNATIVES);
  return drift;
}
