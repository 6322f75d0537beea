/** Checks the load generator: measures a mock server with known timings and compares the medians with them. */

import { median } from "../../core/statistics.js";
import type { LoadGenerator } from "../load/generator.js";
import type { LoopLag } from "../load/loop-watch.js";
import type { RequestRecord } from "../load/record.js";
import type { ProbedServer } from "../workload/traffic.js";
import type { MockActual } from "./mock-server.js";
import { startMock } from "./start-mock.js";

export const MOCK_TIMINGS = { ttftMs: 20, tpotMs: 5, tokensPerChunk: 1 };
export const TOLERANCE = 0.02;
const OUTPUT_TOKENS = 64;
const PROMPT_TOKENS = 32;
const MIN_REQUESTS = 30;
const REQUESTS_PER_STREAM = 6;
const SEED = 1;

/** The facts that a probe of the mock finds. */
export const MOCK_FACTS: ProbedServer = {
  model: "mock",
  hasCompletions: true,
  hasChat: true,
  ignoresEos: true,
  hasJsonMode: false,
  tokenIds: [1, 2, 3, 4, 5],
  tokensPerWord: 1,
  promptOverhead: 0,
  chatOverhead: 4,
};

export interface SelfTestResult {
  readonly streams: number;
  readonly numRequests: number;
  readonly numFailed: number;
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** (measured − known) ÷ known. */
  readonly ttftError: number;
  readonly tpotError: number;
  readonly isWithinTolerance: boolean;
  /** The mock's own timings; if they are late, the machine was too busy for the test. */
  readonly mock: MockActual;
  readonly lag: LoopLag;
}

/**
 * Measures one load after another; the clients' starts are spread over the length of a request. If the generator polls,
 * the mock stays awake, too, so that no process sleeps.
 */
export async function selfTest(
  generator: LoadGenerator,
  streams: readonly number[],
  isPolling: boolean,
  onResult: (result: SelfTestResult) => void,
): Promise<SelfTestResult[]> {
  const mock = await startMock({ ...MOCK_TIMINGS, isAwake: isPolling });
  try {
    const results: SelfTestResult[] = [];
    for (const concurrency of streams) {
      const { records, lag } = await generator.run(jobFor(mock.url, concurrency));
      const result = resultOf(concurrency, records, lag, await mock.actual());
      results.push(result);
      onResult(result);
    }
    return results;
  } finally {
    await mock.stop();
  }
}

function jobFor(url: string, concurrency: number) {
  const { ttftMs, tpotMs } = MOCK_TIMINGS;
  const rampMs = ttftMs + (OUTPUT_TOKENS - 1) * tpotMs;
  const lengths = { promptTokens: PROMPT_TOKENS, sharedTokens: 0, outputTokens: OUTPUT_TOKENS };
  return {
    url,
    headers: {},
    timeoutMs: 30_000,
    durationMs: Number.POSITIVE_INFINITY,
    traffic: { workload: { kind: "random", ...lengths } as const, server: MOCK_FACTS, seed: SEED },
    load: { kind: "closed", concurrency, rampMs } as const,
    numSessions: Math.max(MIN_REQUESTS, REQUESTS_PER_STREAM * concurrency),
  };
}

function resultOf(streams: number, records: readonly RequestRecord[], lag: LoopLag, mock: MockActual): SelfTestResult {
  const answered = records.filter((record) => record.failure === undefined);
  const ttftMs = median(answered.map((record) => record.chunkAtMs[0]! - record.sentMs));
  const tpotMs = median(
    answered.map((record) => (record.lastMs - record.chunkAtMs[0]!) / (record.numOutputTokens - 1)),
  );
  const ttftError = ttftMs / MOCK_TIMINGS.ttftMs - 1;
  const tpotError = tpotMs / MOCK_TIMINGS.tpotMs - 1;
  const isWithinTolerance =
    answered.length === records.length && Math.abs(ttftError) <= TOLERANCE && Math.abs(tpotError) <= TOLERANCE;
  const numFailed = records.length - answered.length;
  return {
    streams,
    numRequests: records.length,
    numFailed,
    ttftMs,
    tpotMs,
    ttftError,
    tpotError,
    isWithinTolerance,
    mock,
    lag,
  };
}
