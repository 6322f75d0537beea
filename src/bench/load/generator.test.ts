/** Worker processes and a mock server run as separate processes, so the tests need the compiled program. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { MOCK_FACTS } from "../mock/self-test.js";
import { type RunningMock, startMock } from "../mock/start-mock.js";
import { LoadGenerator, type LoadJob } from "./generator.js";

let mock: RunningMock;
let generator: LoadGenerator;
beforeAll(async () => {
  mock = await startMock({ ttftMs: 30, tpotMs: 5, tokensPerChunk: 2 });
  generator = await LoadGenerator.start(2);
});
afterAll(async () => {
  generator.close();
  await mock.stop();
});

function job(overrides: Partial<LoadJob>): LoadJob {
  const workload = { kind: "random", promptTokens: 12, sharedTokens: 4, outputTokens: 9 } as const;
  return {
    url: mock.url,
    headers: {},
    timeoutMs: 5000,
    durationMs: 60_000,
    numSessions: 40,
    traffic: { workload, server: MOCK_FACTS, seed: 5 },
    load: { kind: "closed", concurrency: 200, rampMs: 0 },
    ...overrides,
  };
}

test("processes share the clients, and chunks are not counted as tokens", async () => {
  const { records, numWorkers, lag } = await generator.run(job({}));
  expect(numWorkers).toBe(2);
  expect(records.map((record) => record.session).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 40 }, (_, i) => i),
  );
  for (const record of records) {
    expect(record).toMatchObject({ numPromptTokens: 12, numOutputTokens: 9, failure: undefined });
    expect(record.chunkAtMs).toHaveLength(5);
    expect(record.chunkAtMs[0]! - record.sentMs).toBeGreaterThan(29);
  }
  expect(lag.numChunks).toBeGreaterThanOrEqual(200);
});

test("processes that poll give the same records", async () => {
  const polling = await LoadGenerator.start(1, true);
  try {
    const load = { kind: "closed", concurrency: 4, rampMs: 0 } as const;
    for (const round of [1, 2]) {
      const { records } = await polling.run(job({ load, numSessions: 8 }));
      expect(records, `round ${round}`).toHaveLength(8);
      expect(records.every(({ failure, chunkAtMs }) => failure === undefined && chunkAtMs.length === 5)).toBe(true);
    }
  } finally {
    polling.close();
  }
});

test("a stopped run returns the records so far", async () => {
  const load = { kind: "closed", concurrency: 3, rampMs: 0 } as const;
  const running = generator.run(job({ load, numSessions: Number.POSITIVE_INFINITY }), ({ numDone }) => {
    if (numDone > 3) generator.stop("stop");
  });
  const { records } = await running;
  expect(records.length).toBeGreaterThan(3);
  expect(records.every((record) => record.failure === undefined)).toBe(true);
});

test("a server that dies leaves failed requests, not a failed run", async () => {
  const dying = await startMock({ ttftMs: 30, tpotMs: 5, tokensPerChunk: 1 });
  const load = { kind: "open", ratePerS: 50, burstiness: 1 } as const;
  const dies = { url: dying.url, load, numSessions: 1000 };
  const { records } = await generator.run(job(dies), ({ numDone }) => {
    if (numDone > 3) void dying.stop();
  });
  const failed = records.filter((record) => record.failure !== undefined);
  expect(failed.length).toBeGreaterThan(10);
  expect(failed.length).toBeLessThan(records.length);
});
