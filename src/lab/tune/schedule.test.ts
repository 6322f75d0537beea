/** The start of the next run, with clocks that are set, and in months of any length. */
import { expect, test } from "vitest";
import { after, dueMs, parseInterval, waitUntil } from "./schedule.js";

const at = (text: string): number => Date.parse(`${text}Z`);
const DAY_MS = 24 * 3_600_000;

test("intervals have names or days, and nothing else", () => {
  expect(parseInterval("weekly")).toEqual({ days: 7 });
  expect(parseInterval("quarterly")).toEqual({ months: 3 });
  expect(parseInterval("10d")).toEqual({ days: 10 });
  for (const text of ["", "0d", "-1d", "1.5d", "d", "99999d", "1h", "constructor", "Weekly"]) {
    expect(parseInterval(text)).toBeUndefined();
  }
});

test.each([
  ["2027-01-15T03:00", { months: 1 }, "2027-02-15T03:00"],
  ["2027-01-31T03:00", { months: 1 }, "2027-02-28T03:00"],
  ["2028-01-31T23:59", { months: 1 }, "2028-02-29T23:59"],
  ["2027-11-30T03:00", { months: 3 }, "2028-02-29T03:00"],
  ["2027-12-31T03:00", { months: 1 }, "2028-01-31T03:00"],
  ["2027-03-27T03:00", { days: 7 }, "2027-04-03T03:00"],
])("after %s and %o comes %s", (start, interval, end) => {
  expect(new Date(after(at(start), interval)).toISOString()).toBe(new Date(at(end)).toISOString());
});

test("a run is due at once where none was, where one was missed, and where the last one is in the future", () => {
  const now = at("2027-06-01T00:00");
  expect(dueMs(undefined, { days: 7 }, now)).toBe(now);
  expect(dueMs(at("2027-01-01T00:00"), { days: 7 }, now)).toBeLessThan(now);
  expect(dueMs(at("2035-01-01T00:00"), { days: 7 }, now)).toBe(now);
  expect(dueMs(now - DAY_MS, { days: 7 }, now)).toBe(now + 6 * DAY_MS);
});

test("waiting looks at the clock again and again, so that a clock that is set ends or prolongs it", async () => {
  const { signal } = new AbortController();
  let now = 0;
  const pauses: number[] = [];
  const clock = { now: () => now };
  await waitUntil(
    () => 150_000,
    signal,
    clock,
    async (ms) => {
      pauses.push(ms);
      now += ms;
    },
  );
  expect(pauses).toEqual([60_000, 60_000, 30_000]);
  now = 0;
  const jumps = [60_000, -3_600_000, 400 * DAY_MS];
  await waitUntil(
    () => 30 * DAY_MS,
    signal,
    clock,
    async () => {
      now += jumps.shift()!;
    },
  );
  expect(jumps).toEqual([]);
  const stopping = new AbortController();
  const waiting = waitUntil(() => DAY_MS, stopping.signal, { now: () => 0 });
  stopping.abort(new Error("stop"));
  await expect(waiting).rejects.toThrow();
});
