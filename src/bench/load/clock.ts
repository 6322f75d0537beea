/** One time line for several processes of a machine: milliseconds since an epoch on its monotonic clock. */

/** Milliseconds since the epoch. */
export type Clock = () => number;

/** @returns now, as text that survives every kind of message */
export function newEpoch(): string {
  return String(process.hrtime.bigint());
}

/** performance.now() moved to the epoch: both count on the clock that all processes share. */
export function clockSince(epoch: string): Clock {
  const offsetMs = Number(process.hrtime.bigint() - BigInt(epoch)) / 1e6 - performance.now();
  return () => performance.now() + offsetMs;
}
