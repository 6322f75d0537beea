/** Windows of budgets, in the UTC calendar. */
import type { BudgetWindow } from "../scope.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Start of the window around a moment, in milliseconds since 1970. 0 for a total. */
export function windowStart(window: BudgetWindow, atMs: number): number {
  if (window === "hour") return atMs - mod(atMs, HOUR_MS);
  if (window === "day") return atMs - mod(atMs, DAY_MS);
  if (window === "total") return 0;
  const at = new Date(atMs);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1);
}

/** End of the window that began at `startMs`, in milliseconds since 1970. Undefined: a total never ends. */
export function windowEnd(window: BudgetWindow, startMs: number): number | undefined {
  if (window === "total") return undefined;
  if (window === "hour") return startMs + HOUR_MS;
  if (window === "day") return startMs + DAY_MS;
  const start = new Date(startMs);
  return Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1, 1);
}

const mod = (value: number, by: number): number => ((value % by) + by) % by;
