import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ModelLoad, Pace } from "./pace.js";

const load = (change: Partial<ModelLoad> = {}): ModelLoad => ({
  numReady: 1,
  seats: 16,
  numInFlight: 0,
  numWaiting: 0,
  yieldsToOthers: true,
  ...change,
});
const advise = (change: Partial<ModelLoad>, numLines = 0) => new Pace().advise(load(change), numLines, 0);

describe("lines that may be under way", () => {
  test.each([
    ["an idle model: all seats but the headroom", {}, 0, 14],
    ["beside 4 other requests: no new ones", { numInFlight: 4 }, 0, 0],
    ["beside one, which one of four instances has", { numReady: 4, seats: 64, numInFlight: 1 }, 0, 48],
    ["own lines are no other requests", { numInFlight: 14 }, 14, 14],
    [
      "beside other requests, where each line makes their steps longer",
      { numInFlight: 4, yieldsToOthers: false },
      0,
      2,
    ],
    ["a full model", { numInFlight: 16 }, 0, 0],
    ["one seat, idle", { seats: 1 }, 0, 1],
    ["one seat, taken", { seats: 1, numInFlight: 1 }, 0, 0],
    ["no ready instance: one, which makes it load", { numReady: 0, seats: 0 }, 0, 1],
    ["seats that are not told", { seats: undefined, numReady: 2 }, 0, 14],
  ])("%s", (_, change, numLines, most) => {
    expect(advise(change, numLines)).toEqual({ most, toStop: 0 });
  });

  test("as many lines are stopped as other requests wait for", () => {
    expect(advise({ numInFlight: 16, numWaiting: 3 }, 14)).toEqual({ most: 0, toStop: 3 });
    expect(advise({ numInFlight: 16, numWaiting: 30 }, 2)).toEqual({ most: 0, toStop: 2 });
    // Waiting requests may wait for something else, and a waiting line is no other request.
    expect(advise({ numInFlight: 4, numWaiting: 1 }, 4).toStop).toBe(0);
    expect(advise({ numInFlight: 3, numWaiting: 1 }, 4)).toEqual({ most: 14, toStop: 0 });
    expect(advise({ numInFlight: 5 }, 4)).toEqual({ most: 0, toStop: 0 });
  });

  test("seats of a peak stay free for a while", () => {
    const pace = new Pace();
    expect(pace.advise(load({ numInFlight: 8 }), 0, 0).most).toBe(0);
    expect(pace.advise(load(), 0, 1000).most).toBe(7);
    expect(pace.advise(load(), 0, 60_000).most).toBe(14);
  });
});

test("never more than the free seats, never below nothing, never more stopped than run", () => {
  const count = fc.nat(200);
  fc.assert(
    fc.property(count, count, count, count, fc.boolean(), (seats, numInFlight, numWaiting, ours, yieldsToOthers) => {
      const numLines = Math.min(ours, numInFlight);
      const { most, toStop } = new Pace().advise(
        load({ seats: seats + 1, numInFlight, numWaiting, yieldsToOthers }),
        numLines,
        0,
      );
      const numOthers = numInFlight + numWaiting - numLines;
      expect(most).toBeGreaterThanOrEqual(0);
      expect(most).toBeLessThanOrEqual(Math.max(numOthers === 0 ? 1 : 0, seats + 1 - numOthers));
      expect(toStop).toBeLessThanOrEqual(Math.min(numLines, numWaiting));
    }),
  );
});
