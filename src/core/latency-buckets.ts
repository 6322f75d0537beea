/** Upper ends of the histograms' buckets of times that users wait, in seconds. Alerts count at these ends. */
export const LATENCY_BUCKETS_S: number[] = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];
