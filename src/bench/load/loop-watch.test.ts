import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { LoopWatch } from "./loop-watch.js";

test("a chunk's wait counts from the start of its turn; a long stall affects mean and maximum, but not the typical lag", async () => {
  let nowMs = 0;
  const watch = new LoopWatch(() => nowMs);
  for (let interval = 0; interval < 9; interval++) {
    nowMs += 100;
    watch.onChunk(nowMs);
    nowMs += interval === 4 ? 80 : 0.25;
    watch.onChunk(nowMs);
    await nextTurn();
  }
  const { numChunks, typicalMs, meanMs, maxMs, cpuWaitMs } = watch.lag();
  expect({ numChunks, maxMs }).toEqual({ numChunks: 18, maxMs: 80 });
  expect(meanMs).toBeCloseTo((80 + 8 * 0.25) / 18);
  expect(typicalMs).toBeLessThan(1 + 100 * cpuWaitMs);
});

test("without chunks there is no lag", () => {
  expect(new LoopWatch(() => 0).lag()).toMatchObject({ numChunks: 0, typicalMs: 0, meanMs: 0, maxMs: 0 });
});
