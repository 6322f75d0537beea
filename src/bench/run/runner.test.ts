/** Runs with a fake generator: void runs, and cleanup. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LoadGenerator, LoadResult } from "../load/generator.js";
import type { RequestRecord } from "../load/record.js";
import { MOCK_FACTS } from "../mock/self-test.js";
import type { BenchReport } from "../results/schema.js";
import type { ServerShape } from "../workload/scenarios.js";
import { planFor } from "./plan.js";
import { isCutShort, Runner } from "./runner.js";
import type { LiveTarget, ServerUnderTest } from "./target.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] }));
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const RECORD: RequestRecord = {
  session: 0,
  turn: 0,
  intendedMs: 0,
  sentMs: 0,
  chunkAtMs: [10],
  answerAtMs: 10,
  lastMs: 50,
  failure: undefined,
  numPromptTokens: 4,
  numCachedTokens: 0,
  numOutputTokens: 5,
  finishReason: "length",
};
const FAILED: RequestRecord = { ...RECORD, session: 1, failure: { kind: "connect", detail: "refused" } };
const LAG = { numChunks: 1, typicalMs: 0, meanMs: 0, maxMs: 0, cpuWaitMs: 0, utilization: 0 };

/** Two rounds of one cell. @param run the generator's run, also for warm-ups */
async function runOf(run: () => Promise<LoadResult>, hasServer = true) {
  vi.stubGlobal("fetch", () => (hasServer ? Promise.resolve(new Response('{"data":[]}')) : Promise.reject()));
  const wishes = { scenario: "quick", isReplay: false, scale: 1, seed: 0 };
  const { cells, plan } = planFor({ ...wishes, concurrency: [1], numRequests: 2, rounds: 2 });
  const report = { plan, runs: [] } as unknown as BenchReport;
  const live = { name: "a", address: { url: "" }, facts: MOCK_FACTS, pid: process.pid } as LiveTarget;
  const options = { cells, restarts: "never" as const, signal: new AbortController().signal };
  const events = { onRunStart: () => {}, onProgress: () => {}, onRun: () => {} };
  const generator = { run } as unknown as LoadGenerator;
  const runner = new Runner([{ name: "a", timeoutMs: 1000 }], [live], generator, report, options, events);
  const isComplete = await runner.run();
  const { runs } = report;
  return { isComplete, reasons: runs.map(({ voidReasons }) => voidReasons), isCut: runs.map(isCutShort) };
}

const result = (records: readonly RequestRecord[], hasGivenUp = false): LoadResult => ({
  records,
  lag: LAG,
  hasGivenUp,
  startMs: 0,
  numWorkers: 1,
});

test("a run with a failed request counts; a run that was abandoned or lost its server does not", async () => {
  const records = [RECORD, FAILED];
  const counted = { isComplete: true, reasons: [[], []], isCut: [false, false] };
  expect(await runOf(async () => result(records))).toEqual(counted);
  const reasons = Array(2).fill([expect.stringMatching(/no more/)]);
  expect(await runOf(async () => result(records, true))).toEqual({ isComplete: true, reasons, isCut: [true, true] });
  const gone = { isComplete: false, reasons: [[expect.stringMatching(/is gone/)]], isCut: [true] };
  expect(await runOf(async () => result(records), false)).toEqual(gone);
});

test("a generator that dies leaves no watches behind", async () => {
  let numRuns = 0;
  const dies = async (): Promise<LoadResult> => {
    if (numRuns++ === 0) return result([RECORD]);
    expect(vi.getTimerCount()).toBe(2);
    throw new Error("died");
  };
  await expect(runOf(dies)).rejects.toThrow("died");
  expect(vi.getTimerCount()).toBe(0);
});

const SERVER = `require("node:http").createServer((request, response) => response.end('{"data":[]}')).listen(Number(process.argv[1]))`;

test("with a start for each round, a server stays up for the cells of its size, and targets take turns by round", async () => {
  vi.useRealTimers();
  const shapes = [10, 10, 20].map((seats) => ({ seats, maxModelLen: 100, kvTokens: 1000 }));
  const { cells: three, plan } = planFor({
    scenario: "quick",
    isReplay: false,
    scale: 1,
    seed: 0,
    concurrency: [1, 2, 4],
    numRequests: 2,
    rounds: 2,
  });
  const cells = three.map((cell, i) => ({ ...cell, shape: shapes[i] }));
  const log: string[] = [];
  const launched = (name: string): ServerUnderTest => {
    const command = (port: number, shape: ServerShape | undefined) => {
      if (port > 0) log.push(`${name}${shape!.seats}`);
      return [process.execPath, "-e", SERVER, String(port)];
    };
    return { name, timeoutMs: 1000, launch: { name, command } };
  };
  const targets = ["a", "b"].map(launched);
  const report = { plan, runs: [] } as unknown as BenchReport;
  const live = targets.map(({ name }) => ({ name, facts: MOCK_FACTS }) as LiveTarget);
  const options = { cells, restarts: "round" as const, signal: new AbortController().signal };
  const events = { onRunStart: () => {}, onProgress: () => {}, onRun: () => log.push("run") };
  const generator = { run: async () => result([RECORD]) } as unknown as LoadGenerator;
  expect(await new Runner(targets, live, generator, report, options, events).run()).toBe(true);
  const order = "a10 run run b10 run run b10 run run a10 run run a20 run b20 run b20 run a20 run";
  expect(log.join(" ")).toBe(order);
  // A second run of the plan finds all runs done, and starts none.
  await new Runner(targets, live, generator, report, options, events).run();
  expect(log.join(" ")).toBe(order);
});
