/**
 * Percentiles by nearest rank: the smallest sample with at least a share q of all samples at or below it. A percentile
 * is given only if at least one sample lies beyond it on average: the 99th needs 100 samples, the 99.9th needs 1,000.
 */

import type { Distribution } from "../results/schema.js";

export const PERCENTILES = { p50: 0.5, p90: 0.9, p95: 0.95, p99: 0.99, p999: 0.999 } as const;

export type PercentileName = keyof typeof PERCENTILES;

export function samplesNeeded(q: number): number {
  return Math.ceil(1 / (1 - q) - 1e-9);
}

/** @param sorted ascending. @returns undefined with too few samples */
export function percentile(sorted: readonly number[], q: number): number | undefined {
  if (sorted.length < samplesNeeded(q)) return undefined;
  return sorted[Math.max(0, Math.ceil(q * sorted.length - 1e-9) - 1)];
}

/** Undefined without samples. */
export function distributionOf(values: readonly number[]): Distribution | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const known = Object.entries(PERCENTILES).flatMap(([name, q]) => {
    const value = percentile(sorted, q);
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    count: sorted.length,
    mean: sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
    min: sorted[0]!,
    max: sorted.at(-1)!,
    percentiles: Object.fromEntries(known),
  };
}

/** The equivalent number of independent samples, from the correlation ρ of neighbours: n (1 − ρ) ÷ (1 + ρ). */
export function effectiveSamples(inOrder: readonly number[]): number {
  const count = inOrder.length;
  const mean = inOrder.reduce((sum, value) => sum + value, 0) / count;
  let variance = 0;
  let covariance = 0;
  for (const [i, value] of inOrder.entries()) {
    variance += (value - mean) ** 2;
    if (i > 0) covariance += (value - mean) * (inOrder[i - 1]! - mean);
  }
  // Negative correlation must not raise the number above the actual one.
  const rho = variance === 0 ? 0 : Math.min(0.99, Math.max(0, covariance / variance));
  return (count * (1 - rho)) / (1 + rho);
}

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/**
 * 95 % interval of a percentile from order statistics, at ranks nq ± 1.96 √(nq(1−q)); undefined if the ranks lie
 * outside the samples.
 */
export function percentileInterval(inOrder: readonly number[], q: number): Interval | undefined {
  const count = effectiveSamples(inOrder);
  const spread = (1.96 * Math.sqrt(count * q * (1 - q))) / count;
  const sorted = [...inOrder].sort((a, b) => a - b);
  const low = Math.floor((q - spread) * sorted.length) - 1;
  const high = Math.ceil((q + spread) * sorted.length) - 1;
  if (low < 0 || high >= sorted.length) return undefined;
  return { low: sorted[low]!, high: sorted[high]! };
}
