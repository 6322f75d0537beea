import fc from "fast-check";
import { expect, test } from "vitest";
import { parseSlo } from "../../core/slo.js";
import type { RequestRecord } from "../load/record.js";
import { outputTokensIn, plateauOf } from "./plateau.js";
import { measureRun, throughputOf, voidReasons } from "./run-metrics.js";

/** A record sent at `sentMs`, with chunks at these times after it. */
function record(sentMs: number, chunks: readonly number[], more: Partial<RequestRecord> = {}): RequestRecord {
  const chunkAtMs = chunks.map((atMs) => sentMs + atMs);
  return {
    session: 0,
    turn: 0,
    intendedMs: sentMs,
    sentMs,
    chunkAtMs,
    answerAtMs: chunkAtMs[0],
    lastMs: chunkAtMs.at(-1) ?? sentMs,
    numPromptTokens: 10,
    numCachedTokens: 0,
    numOutputTokens: chunks.length,
    finishReason: "length",
    failure: undefined,
    ...more,
  };
}

const CLOSED = { kind: "closed", concurrency: 10, rampMs: 0 } as const;
const OPEN = { kind: "open", ratePerS: 1, burstiness: 1 } as const;
const FAILED = { failure: { kind: "status", detail: "503: busy" } } as const;

test("times follow their definitions, also for chunks with several tokens", () => {
  const records = [
    record(100, [20, 30, 60], { numOutputTokens: 9, intendedMs: 95, numCachedTokens: 4 }),
    record(200, [40], { numOutputTokens: 1 }),
  ];
  const metrics = measureRun(records, OPEN, undefined);
  expect(metrics).toMatchObject({
    numRequests: 2,
    promptTokens: 20,
    cachedTokens: 4,
    outputTokens: 10,
    durationMs: 140,
    tokensPerChunk: 2.5,
    ttftMs: { mean: 30 },
    intendedTtftMs: { mean: 32.5 },
    // Only one request has a time per output token: 40 ms over 8.
    tpotMs: { count: 1, mean: 5 },
    itlMs: { count: 2, min: 10, max: 30 },
    e2eMs: { mean: 50 },
    sendDelayMs: { max: 5 },
    answerMs: undefined,
  });
  expect(metrics.outputTokensPerS).toBeCloseTo(10_000 / 140);
  expect(metrics.totalTokensPerS).toBeCloseTo(30_000 / 140);
  expect(metrics.concurrency).toBeCloseTo(100 / 140);
});

test("gaps are classified by whether another request waited for its first token when they ended", () => {
  const stream = record(0, [10, 20, 30, 80, 150, 160]);
  const late = record(35, [120, 130]);
  const metrics = measureRun([stream, late], OPEN, undefined);
  expect(metrics.itlMs).toMatchObject({ count: 6 });
  // The other request arrived at 35 ms and had its first token at 155 ms.
  expect(metrics.itlBesidePromptsMs).toMatchObject({ count: 2, min: 50, max: 70 });
  expect(metrics.itlUndisturbedMs).toMatchObject({ count: 4, min: 10, max: 10 });
});

test("failures miss every objective and affect no other figure", () => {
  const records = [record(0, [100, 110]), record(0, [300, 310]), record(0, [50, 200]), record(0, [], FAILED)];
  const metrics = measureRun(records, CLOSED, parseSlo("ttft=200,tpot=50"));
  expect(metrics.failures).toEqual([{ kind: "status", count: 1, example: "503: busy" }]);
  expect(metrics.ttftMs?.count).toBe(3);
  expect(metrics.slo).toEqual({ goodRequestsPerS: expect.closeTo(1000 / 310), attainment: 0.25 });
});

test("a run without answers is void but still reported", () => {
  const metrics = measureRun([record(5, [], FAILED)], CLOSED, undefined);
  expect(metrics).toMatchObject({ numRequests: 1, outputTokensPerS: 0, ttftMs: undefined, plateau: undefined });
  expect(voidReasons(metrics, 0)).toEqual(["no request was answered"]);
});

test("a run is void when the client's lag exceeds a hundredth of the time per token", () => {
  const run = (intendedMs: number) =>
    measureRun(
      [0, 1].map(() => record(100, [20, 30], { intendedMs })),
      CLOSED,
      undefined,
    );
  // 1 % of 10 ms per token is below the floor of 0.2 ms, which is below 1 % of the answer's 30 ms.
  expect(voidReasons(run(99.95), 0.19)).toEqual([]);
  expect(voidReasons(run(99.95), 0.21)).toEqual([expect.stringContaining("read answers late")]);
  // Answers take 30 ms.
  expect(voidReasons(run(99.72), 0)).toEqual([]);
  expect(voidReasons(run(99.68), 0)).toEqual([expect.stringContaining("sent requests late")]);
});

test("the floor applies only below 1 % of an answer's time; slow tokens allow 1 % of theirs", () => {
  const run = (chunkAtMs: number[]) => measureRun([record(0, chunkAtMs), record(0, chunkAtMs)], CLOSED, undefined);
  // Tokens take 0.5 ms, answers 71 ms and 5 ms.
  expect(voidReasons(run([70, 70.5, 71]), 0.19)).toEqual([]);
  expect(voidReasons(run([4, 4.5, 5]), 0.04)).toEqual([]);
  expect(voidReasons(run([4, 4.5, 5]), 0.06)).toEqual([expect.stringContaining("read answers late")]);
  // Tokens take 100 ms.
  expect(voidReasons(run([100, 200, 300]), 0.9)).toEqual([]);
  expect(voidReasons(run([100, 200, 300]), 1.1)).toEqual([expect.stringContaining("read answers late")]);
});

test("the plateau excludes ramp and drain", () => {
  // Ten clients that begin 10 ms apart, each with requests of 100 ms.
  const records = Array.from({ length: 10 }, (_, client) =>
    Array.from({ length: 5 }, (_, i) => record(10 * client + 100 * i, [50, 100])),
  ).flat();
  const plateau = plateauOf(records, 10)!;
  // The ninth client starts at 80 ms; the first ends at 500 ms, the second at 510 ms.
  expect(plateau).toEqual({ startMs: 80, endMs: 510, numDone: expect.any(Number) });
  const { plateau: metrics, ...whole } = measureRun(records, CLOSED, undefined);
  expect(metrics!.outputTokensPerS).toBeCloseTo(200, -1);
  expect(whole.outputTokensPerS).toBeCloseTo((1000 * 100) / 590);
  expect(Math.abs(metrics!.drift!)).toBeLessThan(0.1);
  expect(throughputOf({ plateau: metrics, ...whole })).toBe(metrics!.outputTokensPerS);
});

test("too few answers have no plateau; open loads count from the first answer to the last arrival", () => {
  expect(plateauOf([record(0, [10, 100]), record(0, [10, 130])], 2)).toBeUndefined();
  const arrivals = [0, 100, 200, 300].map((atMs) => record(atMs, [20, 60]));
  expect(plateauOf(arrivals, undefined)).toEqual({ startMs: 60, endMs: 300, numDone: 2 });
});

test("tokens of two adjacent windows add up to those of both", () => {
  const chunks = fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(fc.array(chunks, { minLength: 1, maxLength: 6 }), fc.nat(600), (all, cutMs) => {
      const records = all.map((times) =>
        record(
          0,
          [...times].sort((a, b) => a - b),
          { numOutputTokens: 7 },
        ),
      );
      const parts = outputTokensIn(records, 0, cutMs) + outputTokensIn(records, cutMs, 1000);
      expect(parts).toBeCloseTo(7 * records.length, 6);
    }),
  );
});
