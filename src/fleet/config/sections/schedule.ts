/** Keys of `autoscale.schedule`: bounds on the number of instances by time of day. */
import { z } from "zod";
import { integer, parsed, section } from "../../../core/config-values.js";

const NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const RANGE = /^([a-z]{3})(?:-([a-z]{3}))?$/;

/** Days of the week; 0 is Sunday. @example "mon-fri" → 1 to 5; "fri-mon" → 5, 6, 0, 1 */
function parseDays(written: string): number[] | undefined {
  const days = new Set<number>();
  for (const part of written.split(",")) {
    const [, first = "", last = first] = RANGE.exec(part) ?? [];
    const [from, to] = [NAMES.indexOf(first), NAMES.indexOf(last)];
    if (from < 0 || to < 0) return undefined;
    for (let day = from; ; day = (day + 1) % 7) {
      days.add(day);
      if (day === to) break;
    }
  }
  return [...days].sort((a, b) => a - b);
}

const HOURS = /^([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)$/;

/** Minutes after midnight; an end at or before the start lies on the next day. */
function parseHours(written: string): { readonly from: number; readonly to: number } | undefined {
  const match = HOURS.exec(written);
  if (match === null) return undefined;
  const [, fromHour, fromMinute, toHour = "0", toMinute = "0"] = match;
  return { from: Number(fromHour) * 60 + Number(fromMinute), to: Number(toHour) * 60 + Number(toMinute) };
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** @param instances schema of a number of instances, or of a range */
export const scheduleShape = <T extends z.ZodType>(instances: T) => ({
  spare: integer(0, 64).optional().describe("instances kept ready beyond those that the load needs (0)"),
  "time-zone": z
    .string()
    .refine(isTimeZone, "a time zone such as Europe/Berlin")
    .optional()
    .meta({ title: "a time zone", examples: ["Europe/Berlin"] })
    .describe("time zone of `schedule` (default: the machine's)"),
  schedule: z
    .array(
      section({
        days: parsed("days of the week", ["mon-fri", "sat,sun"], /^[a-z,-]+$/, parseDays)
          .prefault("mon-sun")
          .describe("days on which the window begins"),
        hours: parsed("hours of the day", ["08:00-20:00", "22:00-06:00"], /^[\d:-]+$/, parseHours)
          .prefault("00:00-24:00")
          .describe("local time; a window that ends before it begins lasts until the next day"),
        instances: instances.describe("number of instances, or their range, while the window lasts"),
      }),
    )
    .min(1)
    .optional()
    .describe(
      "windows of the week with their own numbers of instances; the first that covers the moment counts, and `instances` outside of all",
    ),
});

export interface ScheduleEntry {
  readonly days: readonly number[];
  readonly hours: { readonly from: number; readonly to: number };
  readonly instances: number | { readonly min: number; readonly max: number };
}
