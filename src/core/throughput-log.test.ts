import type { Logger } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type LoadSource, logThroughput } from "./throughput-log.js";

beforeEach(() => vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] }));
afterEach(() => vi.useRealTimers());

const source = (instance: string, generationTokens: number): LoadSource => ({
  about: { model: "m", instance },
  counts: {
    numRunning: 0,
    numWaiting: 0,
    kvUsage: 0,
    promptTokens: 0,
    generationTokens,
    prefixQueries: 0,
    prefixHits: 0,
  },
});

test("each busy instance has its line every ten seconds, a quiet one none", () => {
  let sources = [source("m-1", 100), source("m-2", 100)];
  const info = vi.fn();
  const timer = logThroughput({ info } as unknown as Logger, () => sources);
  vi.advanceTimersByTime(10_000);
  expect(info).not.toHaveBeenCalled();
  sources = [source("m-1", 150), source("m-2", 100)];
  vi.advanceTimersByTime(9_999);
  expect(info).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(info.mock.calls).toEqual([
    [expect.objectContaining({ model: "m", instance: "m-1" }), expect.stringContaining("answers 5.0 tok/s")],
  ]);
  sources = [source("m-1", 150), source("m-2", 100), source("attached", 1_000_000)];
  vi.advanceTimersByTime(10_000);
  // Work from before a server's first appearance does not count in these ten seconds.
  expect(info).toHaveBeenCalledTimes(1);
  clearInterval(timer);
});
