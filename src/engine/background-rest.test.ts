import fc from "fast-check";
import { expect, test } from "vitest";
import { BackgroundRest } from "./background-rest.js";

/** Others are there at first. */
function besideOthers() {
  const rest = new BackgroundRest();
  rest.sawOthers(0);
  return rest;
}

test("a step is followed by a rest of its own length", () => {
  const rest = besideOthers();
  expect(rest.restMs(0)).toBe(0);
  rest.worked(40);
  expect(rest.restMs(40)).toBe(40);
  rest.rested(40);
  expect(rest.restMs(80)).toBe(0);
});

test("short steps share a rest, and the end of a rest that an arrival cut short follows later", () => {
  const rest = besideOthers();
  rest.worked(0.6);
  rest.worked(0.6);
  expect(rest.restMs(2)).toBe(0);
  rest.worked(1);
  expect(rest.restMs(3)).toBeCloseTo(2.2);
  rest.rested(0.1);
  expect(rest.restMs(4)).toBeCloseTo(2.1);
  // Two timers that came late are made up for.
  rest.rested(3.1);
  rest.worked(2.5);
  expect(rest.restMs(9)).toBe(0);
});

test("without others, and five seconds after them, there are no rests, and none is owed for that time", () => {
  const alone = new BackgroundRest();
  alone.worked(40);
  expect(alone.restMs(0)).toBe(0);
  const rest = besideOthers();
  rest.worked(40);
  expect(rest.restMs(5000)).toBe(40);
  expect(rest.restMs(5001)).toBe(0);
  rest.sawOthers(6000);
  expect(rest.restMs(6000)).toBe(0);
});

test("no rest is longer than a second", () => {
  const rest = besideOthers();
  rest.worked(20_000);
  expect(rest.restMs(100)).toBe(1000);
});

/**
 * Steps and rests on a simulated clock. A rest takes `late` longer than asked, or ends early where somebody arrives.
 */
const turn = fc.record({
  stepMs: fc.double({ min: 0.1, max: 300, noNaN: true }),
  late: fc.double({ min: 0, max: 3, noNaN: true }),
  endsAfter: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
});

test("others are left half of the time, and background work gets the other half, whatever steps and timers take", () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 200 }), (turns) => {
      const rest = besideOthers();
      let [nowMs, workedMs, restedMs] = [0, 0, 0];
      for (const { stepMs, late, endsAfter } of turns) {
        nowMs += stepMs;
        workedMs += stepMs;
        rest.worked(stepMs);
        // Others come again and again.
        rest.sawOthers(nowMs);
        const askedMs = rest.restMs(nowMs);
        const tookMs = askedMs === 0 ? 0 : endsAfter === null ? askedMs + late : askedMs * endsAfter;
        if (askedMs > 0) rest.rested(tookMs);
        nowMs += tookMs;
        restedMs += tookMs;
        // No starvation: a rest never takes more than was worked, but for one late timer.
        expect(restedMs).toBeLessThanOrEqual(workedMs + 3 + 1e-6);
        // The time is left free, but for what is not worth a timer yet, and where arrivals ended rests.
        if (turns.every((each) => each.endsAfter === null)) expect(workedMs - restedMs).toBeLessThan(2);
      }
    }),
  );
});
