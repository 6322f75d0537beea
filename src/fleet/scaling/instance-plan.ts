/** One instance on all cores (or GPUs), or several that share them: chooses the splits to measure, and the best one. */

export interface Split {
  readonly instances: number;
  /** Cores of each instance; GPUs for a model with `gpus`. */
  readonly perInstance: number;
}

export interface MeasuredSplit extends Split {
  /** Throughput of all instances together, each with its share of the expected requests. */
  readonly tokensPerS: number;
}

/**
 * More processes must gain more than the noise of a measurement: each has its own prefix cache, and a request can use
 * only one.
 */
const LEAST_GAIN = 0.05;

const MAX_SPLITS = 6;

/** @example splitsOf(4, 8) // 1×4, 2×2, 4×1 */
export function splitsOf(numUnits: number, concurrency: number): readonly Split[] {
  const divisors = Array.from({ length: numUnits }, (_, i) => i + 1).filter((count) => numUnits % count === 0);
  // An instance without requests would only occupy memory.
  const useful = divisors.filter((count) => count <= concurrency).slice(0, MAX_SPLITS);
  return useful.map((instances) => ({ instances, perInstance: numUnits / instances }));
}

/** The fastest split; among those about as fast, the one with the fewest instances. */
export function chooseSplit(measured: readonly MeasuredSplit[]): MeasuredSplit | undefined {
  return measured
    .toSorted((a, b) => a.instances - b.instances)
    .reduce<MeasuredSplit | undefined>(
      (best, split) => (best === undefined || split.tokensPerS > best.tokensPerS * (1 + LEAST_GAIN) ? split : best),
      undefined,
    );
}
