/** The load generator: worker processes share a run's clients or arrivals, and their records are merged. */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";
import { arrivalTimes, clientStarts, type Load } from "../workload/load.js";
import { seedFrom } from "../workload/random.js";
import type { Traffic } from "../workload/traffic.js";
import { turnsOf } from "../workload/workload.js";
import { type Clock, clockSince, newEpoch } from "./clock.js";
import { type FromWorker, POLL, type Progress, type ShareResult, type ToWorker } from "./messages.js";
import type { ShareLoad } from "./share.js";

/** The compiled module, because a separate process runs compiled code. */
const WORKER = "dist/src/bench/load/worker.js";

/** Streams, or arrivals per second, that one process can follow. */
const STREAMS_PER_WORKER = 128;

/** Time for all workers to receive their shares before the first request is due. */
const LEAD_MS = 100;

/** Seed of the arrivals; sessions have seeds from 0 on. */
const ARRIVALS = -2;

export interface LoadJob {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly traffic: Traffic;
  readonly load: Load;
  /** Number of sessions; Infinity: limited by time only. */
  readonly numSessions: number;
  /** No session begins after this time. */
  readonly durationMs: number;
}

export interface LoadResult extends ShareResult {
  /** On the generator's clock. */
  readonly startMs: number;
  readonly numWorkers: number;
}

export class LoadGenerator {
  readonly now: Clock;
  #running: readonly ChildProcess[] = [];

  private constructor(
    epoch: string,
    private readonly workers: readonly ChildProcess[],
  ) {
    this.now = clockSince(epoch);
  }

  /**
   * Resolves when all processes are ready.
   *
   * @param isPolling each process occupies a core during a run, so that no answer waits for a wake-up
   */
  static async start(numWorkers: number, isPolling = false): Promise<LoadGenerator> {
    const epoch = newEpoch();
    const path = join(packageRoot(), WORKER);
    const workers = Array.from({ length: numWorkers }, () =>
      fork(path, [epoch, ...(isPolling ? [POLL] : [])], { serialization: "advanced" }),
    );
    await Promise.all(workers.map((worker) => messageFrom(worker, (message) => message.kind === "ready")));
    return new LoadGenerator(epoch, workers);
  }

  /** Only one run at a time. Failed requests become records; the promise rejects only if a worker process dies. */
  async run(job: LoadJob, onProgress: (progress: Progress) => void = () => {}): Promise<LoadResult> {
    const numStreams = job.load.kind === "closed" ? job.load.concurrency : this.workers.length * STREAMS_PER_WORKER;
    const numWorkers = Math.min(this.workers.length, Math.ceil(numStreams / STREAMS_PER_WORKER));
    this.#running = this.workers.slice(0, numWorkers);
    const startMs = this.now() + LEAD_MS;
    const stopMs = startMs + job.durationMs;
    const { url, headers, timeoutMs, traffic } = job;
    const progress: Progress[] = [];
    const shares = sharesOf(job, startMs, numWorkers).map(async (load, index) => {
      const worker = this.#running[index]!;
      const result = messageFrom(worker, (message) => {
        if (message.kind === "progress") {
          progress[index] = message.progress;
          onProgress(totalOf(progress));
        }
        return message.kind === "done";
      });
      send(worker, { kind: "run", url, headers, timeoutMs, traffic, share: { load, stopMs } });
      return (await result) as Extract<FromWorker, { kind: "done" }>;
    });
    try {
      const results = await Promise.all(shares);
      const records = results.flatMap((result) => result.records).sort((a, b) => a.intendedMs - b.intendedMs);
      const hasGivenUp = results.some((result) => result.hasGivenUp);
      return { records, lag: mergedLag(results), hasGivenUp, startMs, numWorkers };
    } finally {
      this.#running = [];
    }
  }

  /** Ends the current run early: requests in progress are finished, or dropped with `abort`. */
  stop(kind: "stop" | "abort"): void {
    for (const worker of this.#running) send(worker, { kind });
  }

  close(): void {
    for (const worker of this.workers) if (worker.connected) worker.disconnect();
  }
}

function send(worker: ChildProcess, message: ToWorker): void {
  // The run that waits for a dead worker reports it.
  if (worker.connected) worker.send(message, () => {});
}

/** The first message that satisfies `isWanted`; rejects when the process ends first. */
function messageFrom(worker: ChildProcess, isWanted: (message: FromWorker) => boolean): Promise<FromWorker> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: FromWorker) => {
      if (!isWanted(message)) return;
      worker.off("message", onMessage).off("exit", onExit);
      resolve(message);
    };
    const onExit = (code: number | null, signal: string | null) => {
      const got = `exit ${code ?? signal}`;
      reject(new MillraceError("internal_error", `expected the load generator's process to keep running, got ${got}`));
    };
    worker.on("message", onMessage).on("exit", onExit);
    if (worker.exitCode !== null || worker.signalCode !== null) onExit(worker.exitCode, worker.signalCode);
  });
}

function sharesOf(job: LoadJob, startMs: number, numWorkers: number): ShareLoad[] {
  const { load, numSessions, traffic } = job;
  const workers = Array.from({ length: numWorkers }, (_, worker) => worker);
  const isOf = (worker: number) => (_: unknown, index: number) => index % numWorkers === worker;
  if (load.kind === "closed") {
    const starts = clientStarts(load).map((atMs) => startMs + atMs);
    const shared = { kind: "clients", step: numWorkers, count: numSessions } as const;
    return workers.map((worker) => ({ ...shared, startMs: starts.filter(isOf(worker)), first: worker }));
  }
  // The rate counts requests; a session can have several.
  const arrivals = load.kind === "open" ? { ...load, ratePerS: load.ratePerS / turnsOf(traffic.workload) } : load;
  const sessions = arrivalTimes(arrivals, job, seedFrom(traffic.seed, ARRIVALS)).map((atMs, index) => ({
    index,
    atMs: startMs + atMs,
  }));
  return workers.map((worker) => ({ kind: "arrivals", sessions: sessions.filter(isOf(worker)) }));
}

function totalOf(all: readonly (Progress | undefined)[]): Progress {
  const sum = (value: (progress: Progress) => number) =>
    all.reduce((total, progress) => total + (progress === undefined ? 0 : value(progress)), 0);
  return {
    numSent: sum((each) => each.numSent),
    numDone: sum((each) => each.numDone),
    numFailed: sum((each) => each.numFailed),
    numOutputTokens: sum((each) => each.numOutputTokens),
  };
}

/** Means weighted by chunks. */
function mergedLag(results: readonly ShareResult[]): ShareResult["lag"] {
  const lags = results.map((result) => result.lag);
  const numChunks = lags.reduce((sum, lag) => sum + lag.numChunks, 0);
  const mean = (value: (lag: ShareResult["lag"]) => number) =>
    lags.reduce((sum, lag) => sum + value(lag) * lag.numChunks, 0) / Math.max(1, numChunks);
  return {
    numChunks,
    typicalMs: mean((lag) => lag.typicalMs),
    meanMs: mean((lag) => lag.meanMs),
    maxMs: Math.max(...lags.map((lag) => lag.maxMs)),
    cpuWaitMs: mean((lag) => lag.cpuWaitMs),
    utilization: Math.max(...lags.map((lag) => lag.utilization)),
  };
}
