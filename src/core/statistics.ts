/** Medians and spreads of a few measurements, for all tables of measurements. */

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  /** (max − min) ÷ median; 0 for one sample. */
  readonly spread: number;
}

/** The middle value, or the mean of the two middle ones; NaN for an empty list. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Least and largest of any number of values; +∞ and −∞ for none. */
export function extremesOf(values: readonly number[]): { readonly min: number; readonly max: number } {
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (value < min) min = value;
    if (value > max) max = value;
  }
  return { min, max };
}

/** @param values at least one */
export function summarize(values: readonly number[]): Summary {
  const middle = median(values);
  const { min, max } = extremesOf(values);
  return { median: middle, min, max, spread: middle === 0 ? 0 : (max - min) / middle };
}
