import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PATIENCE_MS, Pulse, PulseReader } from "./pulse.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["hrtime"] }));
afterEach(() => void vi.useRealTimers());

function setUp() {
  const memory = Pulse.memory();
  return { pulse: new Pulse(memory), reader: new PulseReader(memory, PATIENCE_MS) };
}

it("a loop that has nothing to do is never stuck; one that has something is, once a step would have been over", () => {
  const { pulse, reader } = setUp();
  pulse.turn(200);
  vi.advanceTimersByTime(3_600_000);
  expect(reader.stalledMs()).toBe(0);
  // Whatever it did before, its time begins with the work.
  reader.isAwaited = true;
  vi.advanceTimersByTime(PATIENCE_MS + 2000);
  expect(reader.stalledMs()).toBe(0);
  vi.advanceTimersByTime(10);
  expect(reader.stalledMs()).toBe(PATIENCE_MS + 2010);
  pulse.turn(200);
  expect(reader.stalledMs()).toBe(0);
  vi.advanceTimersByTime(3_600_000);
  reader.isAwaited = false;
  expect(reader.stalledMs()).toBe(0);
});

it("a long pause of the whole process grants the steps after it no more than an unknown one gets", () => {
  const { pulse, reader } = setUp();
  reader.isAwaited = true;
  pulse.turn(1);
  vi.advanceTimersByTime(600_000);
  pulse.stepped();
  pulse.turn(1);
  vi.advanceTimersByTime(PATIENCE_MS + 600_000);
  expect(reader.stalledMs()).toBe(0);
  vi.advanceTimersByTime(1);
  expect(reader.stalledMs()).toBeGreaterThan(0);
});

it("long steps are granted: those predicted, those like any seen before, and any where nothing is known", () => {
  for (const [longestMs, grantedMs] of [
    [60_000, 600_000],
    [1, 20 * 5000],
    [undefined, 600_000],
  ] as const) {
    const { pulse, reader } = setUp();
    reader.isAwaited = true;
    pulse.turn(longestMs);
    vi.advanceTimersByTime(5000);
    pulse.stepped();
    pulse.turn(longestMs);
    vi.advanceTimersByTime(PATIENCE_MS + grantedMs);
    expect(reader.stalledMs()).toBe(0);
    vi.advanceTimersByTime(1);
    expect(reader.stalledMs()).toBeGreaterThan(0);
  }
});
