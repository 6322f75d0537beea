/** The lines that a lane starts at each look. Turns of tenants, and pauses, are in service.test.ts. */
import { expect, test } from "vitest";
import { Cancellation } from "../cancellation.js";
import { Lane, type LineSource } from "./lane.js";
import type { LineEnd } from "./run-line.js";

const STOPPED: LineEnd = { kind: "stopped" };

function laneOf(numLines: number) {
  const ends: ((end: LineEnd) => void)[] = [];
  const source: LineSource = {
    tenant: "t",
    next: () =>
      ends.length === numLines
        ? undefined
        : { numBytes: 1, run: () => new Promise<LineEnd>((resolve) => ends.push(resolve)) },
  };
  const lane = new Lane({
    load: () => ({ numReady: 1, seats: 16, numInFlight: lane.numRunning, numWaiting: 0, yieldsToOthers: true }),
    mostLines: () => 3,
    newCancellation: () => new Cancellation(),
    now: () => 0,
  });
  lane.add(source);
  return { lane, ends };
}

test("one line begins at each look, and none when a line ends", async () => {
  const { lane, ends } = laneOf(100);
  const numBegun = () => {
    lane.pump();
    return ends.length;
  };
  expect([numBegun(), numBegun(), numBegun(), numBegun()]).toEqual([1, 2, 3, 3]);
  for (const end of ends) end(STOPPED);
  await new Promise(setImmediate);
  expect([lane.numRunning, ends.length]).toEqual([0, 3]);
  expect([numBegun(), numBegun()]).toEqual([4, 5]);
});
