/**
 * Finds an hour whose level is unusual for its place in the week. Levels are compared as logarithms: a doubling weighs
 * the same at every level. With four weeks of history, the expectation is the median of the same hour in those weeks.
 * The hour is then unusual if it is a multiple of the expectation, and its distance is large in units of the spread of
 * all hours around their own expectations and exceeds all their distances. With less history, the expectation is a
 * moving average, and an hour is unusual if it is a multiple of the highest hour before it.
 */
import { leaveOneOut, median, spreadOf } from "./robust.js";

interface LevelRules {
  /**
   * Added to each value before its logarithm: an hour without requests then has a level, and all values far below this
   * floor have about the same one.
   */
  readonly floor: number;
}

/** Distance in units of the spread. */
const MIN_Z = 6;
/** Multiple of the expectation. */
const MIN_RATIO = 2;
/** Least spread that is assumed: even a series that has never changed may change by a tenth. */
const MIN_SPREAD = 0.1;
const HOURS_OF_WEEK = 168;
export const HISTORY_WEEKS = 8;
const MIN_WEEKS = 4;
/** A shorter history is not judged, since it lacks a second day to compare with. */
const MIN_HOURS = 48;
/** The moving average remembers about two days. */
const EWMA_SHARE = 1 / 48;
/** Ratio to the highest hour, used before there are four weeks of hours. */
const YOUNG_RATIO = 3;

interface Unusual {
  readonly value: number;
  readonly expected: number;
}

/**
 * @param history values of the hours before, oldest first; undefined: the hour has no value
 * @param value of the judged hour
 * @returns undefined if the value is not unusually high
 */
export function levelAlarm(history: Values, value: number, { floor }: LevelRules): Unusual | undefined {
  const levelOf = (each: number): number => Math.log(each + floor);
  const level = levelOf(value);
  const own = sameHours(history, 0).map(levelOf);
  const isYoung = own.length < MIN_WEEKS;
  const expected = isYoung ? recentMean(history, levelOf) : median(own);
  // Most hours end here, before the costly part.
  if (!(level - expected >= Math.log(MIN_RATIO))) return undefined;
  if (!(isYoung ? isRecord(history, value + floor, floor) : isFarOut(history, level - expected, levelOf)))
    return undefined;
  return { value, expected: Math.max(0, Math.exp(expected) - floor) };
}

type Values = readonly (number | undefined)[];

/** Values at the hour that is `offset` hours before the judged one, and at the same hour of earlier weeks. */
function sameHours(history: Values, offset: number): number[] {
  const values: number[] = [];
  for (let week = offset === 0 ? 1 : 0; week < HISTORY_WEEKS + (offset === 0 ? 1 : 0); week++) {
    const value = history[history.length - offset - week * HOURS_OF_WEEK];
    if (value !== undefined) values.push(value);
  }
  return values;
}

/** Whether the distance is large in units of the spread, and exceeds every hour's from the same hour of other weeks. */
function isFarOut(history: Values, distance: number, levelOf: (value: number) => number): boolean {
  const residuals: number[] = [];
  for (let offset = 0; offset < HOURS_OF_WEEK; offset++) {
    const levels = sameHours(history, offset).map(levelOf);
    if (levels.length >= MIN_WEEKS) for (const residual of leaveOneOut(levels)) residuals.push(residual);
  }
  const isFar = distance > MIN_Z * Math.max(spreadOf(residuals), MIN_SPREAD);
  return isFar && residuals.every((residual) => residual < distance);
}

/** Moving average of the levels; NaN without two days of history. */
function recentMean(history: Values, levelOf: (value: number) => number): number {
  let mean = Number.NaN;
  let numKnown = 0;
  for (const value of history) {
    if (value === undefined) continue;
    const level = levelOf(value);
    mean = numKnown === 0 ? level : mean + EWMA_SHARE * (level - mean);
    numKnown++;
  }
  return numKnown < MIN_HOURS ? Number.NaN : mean;
}

/** A young history does not show nights and weekends, so only an hour far above the highest one counts. */
function isRecord(history: Values, value: number, floor: number): boolean {
  return history.every((each) => each === undefined || value > YOUNG_RATIO * (each + floor));
}
