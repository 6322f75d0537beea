import fc from "fast-check";
import { expect, test } from "vitest";
import { type Schedule, type ScheduleWindow, scheduledBounds } from "./schedule.js";

const WEEKDAYS = [1, 2, 3, 4, 5];
const USUAL = { min: 1, max: 4 };
const BUSINESS: ScheduleWindow = { days: WEEKDAYS, from: 8 * 60, to: 20 * 60, min: 3, max: 8 };
const NIGHT: ScheduleWindow = { days: [0, 1, 2, 3, 4, 5, 6], from: 22 * 60, to: 6 * 60, min: 0, max: 1 };

const berlin = (windows: readonly ScheduleWindow[]): Schedule => ({ timeZone: "Europe/Berlin", windows });
/** 2026-11-25 is a Wednesday; Berlin is one hour ahead of UTC in winter and two in summer. */
const at = (time: string) => Date.parse(`2026-11-25T${time}:00+01:00`);
const bounds = (windows: readonly ScheduleWindow[], epochMs: number, loadMs = 0) =>
  scheduledBounds(berlin(windows), USUAL, epochMs, loadMs);

test.each([
  ["before the window", "07:59", USUAL],
  ["at its begin", "08:00", { min: 3, max: 8 }],
  ["in its last minute", "19:59", { min: 3, max: 8 }],
  ["at its end", "20:00", USUAL],
])("%s", (_, time, expected) => {
  expect(bounds([BUSINESS], at(time))).toMatchObject(expected);
});

test("a weekend has the usual bounds", () => {
  expect(bounds([BUSINESS], Date.parse("2026-11-28T12:00:00+01:00"))).toMatchObject(USUAL);
});

test("a window past midnight belongs to the day on which it begins", () => {
  const fridayNight = [{ ...NIGHT, days: [5] }];
  expect(bounds(fridayNight, Date.parse("2026-11-28T05:59:00+01:00"))).toMatchObject({ min: 0, max: 1 });
  expect(bounds(fridayNight, Date.parse("2026-11-27T05:59:00+01:00"))).toMatchObject(USUAL);
});

test("the wall clock counts on both sides of the change to summer time", () => {
  expect(bounds([BUSINESS], Date.parse("2026-03-27T07:30:00Z"))).toMatchObject({ min: 3 });
  expect(bounds([BUSINESS], Date.parse("2026-03-30T06:30:00Z"))).toMatchObject({ min: 3 });
  expect(bounds([BUSINESS], Date.parse("2026-03-30T05:59:00Z"))).toMatchObject(USUAL);
});

test("the first window that covers the moment decides", () => {
  const noon = { days: WEEKDAYS, from: 12 * 60, to: 13 * 60, min: 5, max: 6 };
  expect(bounds([noon, BUSINESS], at("12:30"))).toMatchObject({ min: 5, max: 6 });
  expect(bounds([BUSINESS, noon], at("12:30"))).toMatchObject({ min: 3, max: 8 });
});

test("instances start as long before the window as they load, and never stop early", () => {
  expect(bounds([BUSINESS], at("07:55"), 10 * 60_000)).toEqual({ min: 3, max: 4 });
  expect(bounds([BUSINESS], at("19:55"), 10 * 60_000)).toEqual({ min: 3, max: 8 });
  expect(bounds([{ ...NIGHT, min: 0, max: 0 }], at("21:55"), 10 * 60_000)).toEqual(USUAL);
});

test("for any schedule and moment, min never exceeds max", () => {
  const window = fc.record({
    days: fc.subarray([0, 1, 2, 3, 4, 5, 6]),
    from: fc.integer({ min: 0, max: 1439 }),
    to: fc.integer({ min: 0, max: 1439 }),
    min: fc.integer({ min: 0, max: 5 }),
    max: fc.integer({ min: 5, max: 9 }),
  });
  const moment = fc.integer({ min: at("00:00"), max: at("00:00") + 30 * 86_400_000 });
  fc.assert(
    fc.property(
      fc.array(window, { maxLength: 4 }),
      moment,
      fc.integer({ min: 0, max: 3_600_000 }),
      (...[windows, epochMs, loadMs]) => {
        const { min, max } = bounds(windows, epochMs, loadMs);
        expect(min).toBeLessThanOrEqual(max);
      },
    ),
  );
});
