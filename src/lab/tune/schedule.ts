/** The time of the next tuning, from the start of the last one, in UTC, so that summer time shifts nothing. */
import { setTimeout as sleep } from "node:timers/promises";

export type Interval = { readonly days: number } | { readonly months: number };

const NAMED: Readonly<Record<string, Interval>> = {
  daily: { days: 1 },
  weekly: { days: 7 },
  monthly: { months: 1 },
  quarterly: { months: 3 },
};
const MAX_DAYS = 3660;

/** @returns undefined if the text is not an interval. @example parseInterval("30d") // { days: 30 } */
export function parseInterval(text: string): Interval | undefined {
  if (Object.hasOwn(NAMED, text)) return NAMED[text];
  const days = Number(/^(\d{1,4})d$/.exec(text)?.[1] ?? 0);
  return days >= 1 && days <= MAX_DAYS ? { days } : undefined;
}

const DAY_MS = 24 * 3_600_000;

/**
 * A month later is the same day, or the month's last.
 * @example after(Date.parse("2027-01-31T00:00Z"), { months: 1 }) // 28 February
 */
export function after(startMs: number, interval: Interval): number {
  if ("days" in interval) return startMs + DAY_MS * interval.days;
  const date = new Date(startMs);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + interval.months);
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, lastDay));
  return date.getTime();
}

/**
 * @param lastMs start of the last run; undefined: there was none
 * @returns when the next one begins; a time that has passed means now
 */
export function dueMs(lastMs: number | undefined, interval: Interval, nowMs: number): number {
  // A start in the future comes from a wrong clock: waiting for it could take years.
  return lastMs === undefined || lastMs > nowMs ? nowMs : after(lastMs, interval);
}

const SLICE_MS = 60_000;

/** Checks the clock every minute, because it may be set and the machine may sleep. @param dueAt called at each check */
export async function waitUntil(
  dueAt: () => number,
  signal: AbortSignal,
  clock: Pick<typeof Date, "now"> = Date,
  pause: (ms: number, signal: AbortSignal) => Promise<unknown> = (ms, stop) => sleep(ms, undefined, { signal: stop }),
): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const left = dueAt() - clock.now();
    if (left <= 0) return;
    await pause(Math.min(SLICE_MS, left), signal);
  }
}
