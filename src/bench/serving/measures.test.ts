import { describe, expect, test } from "vitest";
import type { CompletionRecord } from "./client.js";
import { measure, percentile } from "./measures.js";

const record = (startMs: number, ...tokenAtMs: number[]): CompletionRecord => ({
  startMs,
  tokenAtMs,
  ids: tokenAtMs.map(() => 1),
});

describe("measures", () => {
  test("percentiles are values that were seen", () => {
    expect(percentile([3, 1, 2, 4], 0.5)).toBe(2);
    expect(percentile([3, 1, 2, 4], 0.95)).toBe(4);
    expect(percentile([7], 0.01)).toBe(7);
    expect(percentile([], 0.5)).toBeNaN();
  });

  test("throughput is over the whole run, times between tokens are between events", () => {
    const measures = measure([record(0, 100, 200, 200, 400), record(100, 400, 1000)], false);
    expect(measures.tokensPerS).toBeCloseTo(6);
    expect(measures.ttftP50Ms).toBe(100);
    expect(measures.ttftP95Ms).toBe(300);
    expect(measures.itlP50Ms).toBe(200);
    expect(measures.itlP99Ms).toBe(600);
    expect(measures.arrival).toBeUndefined();
  });

  test("an arrival divides the other streams' times into before and during", () => {
    const stream = record(0, 10, 20, 30, 80, 150, 160);
    const late = record(35, 155, 165);
    expect(measure([stream, late], true).arrival).toEqual({ beforeP99Ms: 10, duringP99Ms: 70, ttftMs: 120 });
  });
});
