/** One instance on all cores, or several on a part of them each: which splits are worth measuring, and which measurement wins. */

export interface Split {
  readonly instances: number;
  readonly coresPerInstance: number;
}

export interface MeasuredSplit extends Split {
  /** Of all instances at once, each with its part of the expected requests. */
  readonly tokensPerS: number;
}

/** More processes have to win by more than a measurement's noise: each has its own caches, and a request sees only those of one. */
const LEAST_GAIN = 0.05;

const MAX_SPLITS = 6;

/** @example splitsOf(4, 8) // 1×4, 2×2, 4×1 */
export function splitsOf(numCores: number, concurrency: number): readonly Split[] {
  const divisors = Array.from({ length: numCores }, (_, i) => i + 1).filter((count) => numCores % count === 0);
  // An instance without a request would only hold memory.
  const useful = divisors.filter((count) => count <= concurrency).slice(0, MAX_SPLITS);
  return useful.map((instances) => ({ instances, coresPerInstance: numCores / instances }));
}

/** The fastest; of those about as fast, the one with the fewest instances. */
export function chooseSplit(measured: readonly MeasuredSplit[]): MeasuredSplit | undefined {
  return measured
    .toSorted((a, b) => a.instances - b.instances)
    .reduce<MeasuredSplit | undefined>(
      (best, split) => (best === undefined || split.tokensPerS > best.tokensPerS * (1 + LEAST_GAIN) ? split : best),
      undefined,
    );
}
