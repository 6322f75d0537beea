import { expect, test } from "vitest";
import { describeThroughput, type LoadCounts, ThroughputMeter } from "./throughput.js";

const counts = (overrides: Partial<LoadCounts>): LoadCounts => ({
  numRunning: 0,
  numWaiting: 0,
  kvUsage: 0,
  promptTokens: 0,
  generationTokens: 0,
  prefixQueries: 0,
  prefixHits: 0,
  ...overrides,
});

test("rates are of the time since the last look", () => {
  const meter = new ThroughputMeter(0, counts({ promptTokens: 50, generationTokens: 10 }));
  const first = counts({ promptTokens: 250, generationTokens: 30, prefixQueries: 200, prefixHits: 50, numRunning: 2 });
  expect(meter.since(10_000, first)).toEqual({
    promptTokensPerS: 20,
    generationTokensPerS: 2,
    running: 2,
    waiting: 0,
    kvUsage: 0,
    prefixHitRate: 0.25,
  });
  const second = counts({ ...first, generationTokens: 130, numWaiting: 3, kvUsage: 0.125 });
  const throughput = meter.since(15_000, second);
  expect(throughput).toMatchObject({ promptTokensPerS: 0, generationTokensPerS: 20, prefixHitRate: undefined });
  expect(describeThroughput(throughput!)).toBe(
    "prompts 0.0 tok/s, answers 20.0 tok/s, running 2, waiting 3, KV 12.5 %",
  );
});

test("an engine that nobody asks anything is no news", () => {
  const meter = new ThroughputMeter(0);
  expect(meter.since(10_000, counts({ generationTokens: 5 }))).toBeDefined();
  expect(meter.since(20_000, counts({ generationTokens: 5, kvUsage: 0.5 }))).toBeUndefined();
  expect(meter.since(30_000, counts({ generationTokens: 5, numWaiting: 1 }))).toBeDefined();
});

test("a process that was started again counts from nothing, and what an engine does not tell is left out", () => {
  const meter = new ThroughputMeter(0, counts({ generationTokens: 900 }));
  const again = { ...counts({ generationTokens: 100 }), numWaiting: undefined, kvUsage: undefined };
  const throughput = meter.since(10_000, again);
  expect(throughput).toMatchObject({ generationTokensPerS: 10 });
  expect(describeThroughput(throughput!)).toBe("prompts 0.0 tok/s, answers 10.0 tok/s, running 0");
});
