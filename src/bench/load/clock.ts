/** One clock for several processes of a machine: milliseconds since an epoch on the monotonic clock. */

/** Milliseconds since the epoch. */
export type Clock = () => number;

/** @returns the present time as text, exact in every kind of message */
export function newEpoch(): string {
  return String(process.hrtime.bigint());
}

/** performance.now() shifted to the epoch: both use the clock that all processes share. */
export function clockSince(epoch: string): Clock {
  const offsetMs = Number(process.hrtime.bigint() - BigInt(epoch)) / 1e6 - performance.now();
  return () => performance.now() + offsetMs;
}
