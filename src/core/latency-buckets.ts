/** Upper ends of the histograms' buckets of times, in seconds. */

/** Ten steps a decade, rounded to preferred numbers (ISO 3, R10). */
const STEPS = [1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8];

/** @example decades(-3, -2) // 0.001, 0.00125, … 0.008 */
const decades = (first: number, end: number): number[] =>
  Array.from({ length: end - first }, (_, i) => STEPS.map((step) => Number(`${step}e${first + i}`))).flat();

/**
 * Times that users wait. Alerts count at these ends. Quantiles are read between two ends: with steps of a quarter they
 * are within a tenth; with two or three steps a decade, three of four 95th percentiles were off by more.
 */
export const LATENCY_BUCKETS_S: number[] = [...decades(-3, 1), 10, 15, 20, 30, 60, 120, 300, 600];

/** Times between two tokens. */
export const TOKEN_BUCKETS_S: number[] = [0.0001, ...decades(-4, 0).slice(3), 1, 2.5, 5];

/** Times of the parts of a request. */
export const PART_BUCKETS_S: number[] = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];
