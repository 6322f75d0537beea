/**
 * Confidence intervals from few runs, for ratios of paired runs and for one quantity over runs, both on a logarithmic
 * scale.
 */
import type { Interval } from "./percentiles.js";

/** 97.5th percentile of Student's t with 1, 2, … 30 degrees of freedom. */
const T_TABLE = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** Student's t; beyond the table, the first two terms of its expansion around the normal quantile 1.96. */
export function tQuantile(degrees: number): number {
  const z = 1.95996;
  return (
    T_TABLE[degrees - 1] ?? z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)
  );
}

/** The least number of runs for an interval. */
export const MIN_RUNS = 3;

export interface Estimate extends Partial<Interval> {
  /** The geometric mean, with a 95 % interval from three runs on. */
  readonly value: number;
  readonly numRuns: number;
}

/** Geometric mean of positive values; undefined without values. */
export function geometricMean(values: readonly number[]): Estimate | undefined {
  const numRuns = values.length;
  if (numRuns === 0) return undefined;
  const logs = values.map(Math.log);
  const mean = logs.reduce((sum, log) => sum + log, 0) / numRuns;
  if (numRuns < MIN_RUNS) return { value: Math.exp(mean), numRuns };
  const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (numRuns - 1);
  const half = tQuantile(numRuns - 1) * Math.sqrt(variance / numRuns);
  return { value: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half), numRuns };
}

/** Ratio of a's runs to b's, paired by index: drift of the machine between rounds cancels. */
export function pairedRatio(a: readonly number[], b: readonly number[]): Estimate | undefined {
  return geometricMean(a.map((value, i) => value / b[i]!));
}

/**
 * Ratio of a's runs to b's of another day, with Welch's 95 % interval of the logarithms from two runs of each on.
 * @returns undefined without values
 */
export function unpairedRatio(a: readonly number[], b: readonly number[]): Estimate | undefined {
  if (a.length === 0 || b.length === 0) return undefined;
  const sides = [a, b].map((values) => {
    const logs = values.map(Math.log);
    const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
    const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (logs.length - 1);
    return { mean, ofMean: variance / logs.length, degrees: logs.length - 1 };
  });
  const [now, then] = [sides[0]!, sides[1]!];
  const difference = now.mean - then.mean;
  const numRuns = a.length + b.length;
  const variance = now.ofMean + then.ofMean;
  // Equal runs, or a single one, give no estimate of the noise.
  if (!(variance > 0)) return { value: Math.exp(difference), numRuns };
  const freedom = variance ** 2 / (now.ofMean ** 2 / now.degrees + then.ofMean ** 2 / then.degrees);
  const half = tQuantile(Math.max(1, Math.floor(freedom))) * Math.sqrt(variance);
  return { value: Math.exp(difference), low: Math.exp(difference - half), high: Math.exp(difference + half), numRuns };
}

/** Standard deviation ÷ mean; 0 for fewer than two values. */
export function variation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  return Math.sqrt(variance) / mean;
}

export interface Difference extends Partial<Interval> {
  readonly value: number;
  readonly numPairs: number;
}

export interface GroupedMean extends Partial<Interval> {
  readonly value: number;
  /** Number of members in all groups. */
  readonly numMembers: number;
}

/**
 * Mean of a − b, paired by index, with its 95 % interval (Student's t); no interval for fewer than three pairs or equal
 * differences.
 */
export function pairedDifference(a: readonly number[], b: readonly number[]): Difference {
  const numPairs = a.length;
  const differences = a.map((value, i) => value - b[i]!);
  const value = differences.reduce((sum, each) => sum + each, 0) / numPairs;
  const variance = differences.reduce((sum, each) => sum + (each - value) ** 2, 0) / (numPairs - 1);
  if (numPairs < MIN_RUNS || variance === 0) return { value, numPairs };
  const half = tQuantile(numPairs - 1) * Math.sqrt(variance / numPairs);
  return { value, low: value - half, high: value + half, numPairs };
}

/**
 * Mean over all members of groups that are not independent, such as the tokens of a text's windows, with its 95 %
 * interval by groups (Student's t, linearised ratio); no interval for fewer than three groups.
 * @param groups sum and number of each group's members
 */
export function groupedMean(groups: readonly { readonly sum: number; readonly count: number }[]): GroupedMean {
  const numMembers = groups.reduce((sum, { count }) => sum + count, 0);
  const value = groups.reduce((sum, group) => sum + group.sum, 0) / numMembers;
  if (groups.length < MIN_RUNS) return { value, numMembers };
  const squares = groups.reduce((sum, group) => sum + (group.sum - value * group.count) ** 2, 0);
  const half = (tQuantile(groups.length - 1) * Math.sqrt((groups.length / (groups.length - 1)) * squares)) / numMembers;
  return { value, low: value - half, high: value + half, numMembers };
}
