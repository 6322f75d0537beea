/** Statistics that a few outliers do not move. */

/** @returns NaN for no values */
export function median(values: readonly number[]): number {
  return middleOf(new Float64Array(values).sort());
}

function middleOf(sorted: Float64Array): number {
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * The median distance of the values from their median, scaled so that it estimates the standard deviation of normal
 * values.
 */
export function spreadOf(values: readonly number[]): number {
  const centre = median(values);
  return 1.4826 * median(values.map((value) => Math.abs(value - centre)));
}

/** Each value's distance from the median of the others. */
export function leaveOneOut(values: readonly number[]): number[] {
  const sorted = new Float64Array(values).sort();
  const last = sorted.length - 1;
  // Without the value at `out`, lower values keep their index, and higher ones move down by one.
  const without = (out: number, at: number): number => sorted[at < out ? at : at + 1]!;
  return values.map((value) => {
    const out = sorted.indexOf(value);
    const middle = last >> 1;
    const others = last % 2 === 1 ? without(out, middle) : (without(out, middle - 1) + without(out, middle)) / 2;
    return value - others;
  });
}
