import { expect, test } from "vitest";
import { nextRun } from "./next-run.js";

const soon = () => new Promise((resolve) => setTimeout(resolve, 1));

test("callers share a run that begins after they asked, one at a time", async () => {
  let value = 0;
  let numRuns = 0;
  let numAtOnce = 0;
  const run = nextRun(async () => {
    numRuns++;
    expect(++numAtOnce).toBe(1);
    const seen = value;
    await soon();
    numAtOnce--;
    return seen;
  });
  const first = run();
  await Promise.resolve();
  value = 1;
  const others = Array.from({ length: 100 }, run);
  expect(await first).toBe(0);
  expect(new Set(await Promise.all(others))).toEqual(new Set([1]));
  expect(numRuns).toBe(2);
  value = 2;
  expect(await run()).toBe(2);
});

test("a failure is told to those who shared it, and the next run is made", async () => {
  let numRuns = 0;
  const run = nextRun(async () => {
    if (++numRuns === 1) throw new Error("broken");
    return numRuns;
  });
  const both = await Promise.allSettled([run(), run()]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await run()).toBe(2);
});
