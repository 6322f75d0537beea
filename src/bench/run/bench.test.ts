/** Whole benchmarks with a fake generator and servers that are never started. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { MOCK_FACTS } from "../mock/self-test.js";
import { htmlOf } from "../report/html.js";
import { markdownOf } from "../report/markdown.js";
import type { BenchReport } from "../results/schema.js";
import { runBench } from "./bench.js";
import { planFor } from "./plan.js";
import type { LiveTarget, ServerUnderTest } from "./target.js";

const opened = vi.hoisted(() => ({ names: [] as string[], failing: [] as string[] }));
vi.mock("./target.js", async (original) => ({
  ...(await original<typeof import("./target.js")>()),
  isAlive: async () => true,
  openTarget: async ({ name }: ServerUnderTest): Promise<LiveTarget> => {
    opened.names.push(name);
    if (opened.failing.includes(name)) {
      throw new MillraceError(
        "peer_failed",
        `expected ${name} to become ready, got:\nloading\n/opt/x/load.py: no memory`,
      );
    }
    const rest = { version: "1", command: `start ${name}`, pid: undefined, work: undefined };
    return {
      name,
      address: { url: "", headers: {}, model: undefined, timeoutMs: 1 },
      facts: MOCK_FACTS,
      close: async () => {},
      ...rest,
    };
  },
}));
vi.mock("../load/generator.js", () => ({
  LoadGenerator: { start: async () => ({ run: async () => RESULT, stop: () => {}, close: () => {} }) },
}));

const RECORD = {
  session: 0,
  turn: 0,
  intendedMs: 0,
  sentMs: 0,
  chunkAtMs: [10],
  answerAtMs: 10,
  lastMs: 50,
  failure: undefined,
};
const COUNTS = { numPromptTokens: 4, numCachedTokens: 0, numOutputTokens: 5, finishReason: "length" };
const LAG = { numChunks: 1, typicalMs: 0, meanMs: 0, maxMs: 0, cpuWaitMs: 0, utilization: 0 };
const RESULT = { records: [{ ...RECORD, ...COUNTS }], lag: LAG, hasGivenUp: false, startMs: 0, numWorkers: 1 };

beforeEach(() => {
  vi.stubGlobal("fetch", () => Promise.reject(new Error("no server")));
  opened.names = [];
  opened.failing = [];
});
afterEach(() => void vi.unstubAllGlobals());

const launched = (name: string, factsOf?: string): ServerUnderTest => {
  const launch = { name, command: () => ["/bin/start", name] };
  return { name, timeoutMs: 1000, launch, ...(factsOf === undefined ? {} : { factsOf }) };
};
const TARGETS = [launched("naive", "vanilla"), launched("vanilla"), launched("all", "vanilla")];

function bench(resumed?: BenchReport): Promise<BenchReport | undefined> {
  const wishes = { scenario: "quick", isReplay: false, scale: 1, seed: 0, concurrency: [1], numRequests: 2, rounds: 2 };
  const job = {
    targets: TARGETS,
    planned: planFor(wishes),
    restarts: "run",
    numThreads: 1,
    resumed,
    numWorkers: 1,
    isPolling: false,
    signal: new AbortController().signal,
  } as const;
  const nothing = (): void => {};
  const events = {
    onOpening: nothing,
    onTargets: nothing,
    onReport: nothing,
    onRunStart: nothing,
    onProgress: nothing,
  };
  return runBench(job, { ...events, onRun: nothing });
}

test("targets with another's facts start for their runs only, and keep their own place and command", async () => {
  const report = await bench();
  expect(opened.names.join(" ")).toBe("vanilla naive vanilla all all vanilla naive");
  expect(report!.targets.map(({ name, command }) => `${name}: ${command}`)).toEqual([
    "naive: start naive",
    "vanilla: start vanilla",
    "all: start all",
  ]);
  expect(report!.isComplete).toBe(true);
});

test("a variant that cannot start is void with its reason, the others go on, and --resume does not try it again", async () => {
  opened.failing = ["naive"];
  const report = await bench();
  const reasonsOf = (target: string) =>
    report!.runs.filter((run) => run.target === target).map(({ voidReasons }) => voidReasons);
  const reason = ["the server did not start: loading load.py: no memory"];
  expect({ naive: reasonsOf("naive"), all: reasonsOf("all") }).toEqual({ naive: [reason, reason], all: [[], []] });
  expect(report!.isComplete).toBe(true);
  expect(opened.names.filter((name) => name === "naive")).toHaveLength(1);
  for (const text of [markdownOf(report!), htmlOf(report!)]) {
    expect(text).toMatch(/VOID: the server did not start/);
    expect(text).not.toMatch(/NaN|undefined/);
  }
  opened.names = [];
  expect((await bench(report))!.runs).toHaveLength(6);
  expect(opened.names).toEqual(["vanilla"]);
});

test("without the target whose facts the others use, there is no benchmark", async () => {
  opened.failing = ["vanilla"];
  await expect(bench()).rejects.toThrow(/expected vanilla to become ready/);
  expect(opened.names).toEqual(["vanilla"]);
});
