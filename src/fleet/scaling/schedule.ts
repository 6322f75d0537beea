/** Bounds of a model's instances by time of day and week: business hours, nights, weekends. */

interface Bounds {
  readonly min: number;
  readonly max: number;
}

/** A part of the week with its own bounds, in the schedule's time zone. */
export interface ScheduleWindow extends Bounds {
  /** Days on which the window begins; 0: Sunday. */
  readonly days: readonly number[];
  /** Minutes after midnight. */
  readonly from: number;
  /** Minutes after midnight; at or before `from`: on the next day. */
  readonly to: number;
}

export interface Schedule {
  /** IANA name; undefined: the machine's own zone. */
  readonly timeZone: string | undefined;
  readonly windows: readonly ScheduleWindow[];
}

const MINUTES_OF_DAY = 24 * 60;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** Formatters are slow to create, and models share one per zone. */
const formatters = new Map<string | undefined, Intl.DateTimeFormat>();

function formatterOf(timeZone: string | undefined): Intl.DateTimeFormat {
  const known = formatters.get(timeZone);
  if (known !== undefined) return known;
  const formatter = new Intl.DateTimeFormat("en-US", {
    ...(timeZone === undefined ? {} : { timeZone }),
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  formatters.set(timeZone, formatter);
  return formatter;
}

/** Local day of the week and minute of the day in a time zone. */
function wallClock(timeZone: string | undefined, epochMs: number): { readonly day: number; readonly minute: number } {
  const parts = new Map(
    formatterOf(timeZone)
      .formatToParts(epochMs)
      .map(({ type, value }) => [type, value]),
  );
  const minute = Number(parts.get("hour")) * 60 + Number(parts.get("minute"));
  return { day: DAYS.indexOf(parts.get("weekday")!), minute };
}

function covers({ days, from, to }: ScheduleWindow, day: number, minute: number): boolean {
  const lengthMinutes = to > from ? to - from : to - from + MINUTES_OF_DAY;
  const isToday = days.includes(day) && minute >= from && minute < from + lengthMinutes;
  const isSinceYesterday = days.includes((day + 6) % 7) && minute + MINUTES_OF_DAY < from + lengthMinutes;
  return isToday || isSinceYesterday;
}

/** The bounds at a moment: those of the first window that covers it, otherwise the usual ones. */
function boundsAt({ timeZone, windows }: Schedule, usual: Bounds, epochMs: number): Bounds {
  const { day, minute } = wallClock(timeZone, epochMs);
  return windows.find((window) => covers(window, day, minute)) ?? usual;
}

/**
 * The bounds to apply now. A higher minimum applies before its window begins, by an instance's load time, so that the
 * instances are ready then; a lower bound waits for its window.
 */
export function scheduledBounds(schedule: Schedule, usual: Bounds, epochMs: number, loadMs: number): Bounds {
  const now = boundsAt(schedule, usual, epochMs);
  const soon = boundsAt(schedule, usual, epochMs + loadMs);
  return { min: Math.max(now.min, soon.min), max: Math.max(now.max, soon.min) };
}
