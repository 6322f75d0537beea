/**
 * Runs a plan: each round of a cell measures all targets in turn, and the next round in reverse order (ABBA). All targets get the same prompts, which
 * are new in each round. Finished runs are in the report even after an error.
 */
import type { LoadGenerator, LoadJob, LoadResult } from "../load/generator.js";
import type { Progress } from "../load/messages.js";
import type { RequestRecord } from "../load/record.js";
import { geometricMean } from "../measure/intervals.js";
import { ProcessWatch } from "../measure/process-usage.js";
import { MetricsWatch } from "../measure/prometheus.js";
import { measureRun, throughputOf, voidReasons } from "../measure/run-metrics.js";
import type { BenchReport, BenchRequest, BenchRun } from "../results/schema.js";
import { seedFrom } from "../workload/random.js";
import type { Cell } from "../workload/scenarios.js";
import { warmUpOf } from "../workload/workload.js";
import { isAlive, type LiveTarget, openTarget, type ServerUnderTest } from "./target.js";

export interface RunnerEvents {
  onRunStart(place: RunPlace): void;
  onProgress(place: RunPlace, progress: Progress): void;
  onRun(place: RunPlace, run: BenchRun): void;
}

export interface RunPlace {
  readonly cell: Cell;
  readonly round: number;
  readonly target: string;
  /** Number of runs in the plan, and of runs before this one. */
  readonly numRuns: number;
  readonly numBefore: number;
}

interface RunnerOptions {
  readonly cells: readonly Cell[];
  /** Launched targets are restarted for each run. */
  readonly isFreshEachRun: boolean;
  /** Aborted: the current run ends as void, and no further run begins. */
  readonly signal: AbortSignal;
}

/** Reasons why an interrupted run is void: its figures lack the requests not sent. */
const STOPPED = "stopped before its end";
const GAVE_UP = "requests failed, so many one after the other that no more were sent";
const GONE = "requests failed, and the server is gone";
const CUT_SHORT: readonly string[] = [STOPPED, GAVE_UP, GONE];

/** Whether the run is repeated when the results are resumed. */
export const isCutShort = ({ voidReasons }: BenchRun): boolean =>
  voidReasons.some((reason) => CUT_SHORT.includes(reason));

/** A workload's cells end with the first one that gains less than this over the one before. */
const SATURATION_GAIN = 1.05;

/** Warm-up requests before a cell's first round, with separate prompts. */
const MAX_WARM_UP_REQUESTS = 8;
const WARM_UP_ROUND = 0;

export class Runner {
  #isGone = false;
  readonly #saturated = new Set<string>();
  readonly #warm = new Set<string>();

  /** @param report receives the runs; runs that it contains are not repeated */
  constructor(
    private readonly targets: readonly ServerUnderTest[],
    private readonly live: readonly LiveTarget[],
    private readonly generator: LoadGenerator,
    private readonly report: BenchReport,
    private readonly options: RunnerOptions,
    private readonly events: RunnerEvents,
  ) {}

  /** Resolves with whether the plan is complete; false when stopped or when a server is gone. */
  async run(): Promise<boolean> {
    const { cells, signal } = this.options;
    const { rounds, stopsWhenSaturated } = this.report.plan;
    for (const [index, cell] of cells.entries()) {
      if (this.#saturated.has(cell.workloadName)) continue;
      for (let round = 1; round <= rounds; round++) {
        const order = this.targets.map((_, target) => target).filter((target) => isUnder(this.targets[target]!, cell));
        for (const target of round % 2 === 1 ? order : order.reverse()) {
          if (signal.aborted || this.#isGone) return false;
          await this.#runOnce(cell, index, round, target);
        }
      }
      if (stopsWhenSaturated && this.#isSaturated(cells, index)) this.#saturated.add(cell.workloadName);
    }
    return !signal.aborted && !this.#isGone;
  }

  async #runOnce(cell: Cell, cellIndex: number, round: number, targetIndex: number): Promise<void> {
    const target = this.targets[targetIndex]!;
    const { runs, plan } = this.report;
    if (runs.some((run) => run.cell === cell.name && run.round === round && run.target === target.name)) return;
    const numRuns =
      plan.rounds * this.options.cells.flatMap((each) => this.targets.filter((one) => isUnder(one, each))).length;
    const place = { cell, round, target: target.name, numRuns, numBefore: runs.length };
    this.events.onRunStart(place);
    const isFresh = this.options.isFreshEachRun && target.launch !== undefined;
    const opened = this.live[targetIndex]!;
    const live = isFresh ? await openTarget(target, cell.shape, this.options.signal, opened.facts) : opened;
    try {
      const job = this.#job(live, cell, cellIndex, round);
      if (!isFresh) await this.#warmUp(live, cell, cellIndex);
      if (this.options.signal.aborted) return;
      const run = await this.#measure(live, job, place);
      if (this.options.signal.aborted) run.voidReasons.push(STOPPED);
      else this.#isGone = run.metrics.failures.length > 0 && !(await isAlive(live));
      if (this.#isGone) run.voidReasons.push(GONE);
      runs.push(run);
      this.events.onRun(place, run);
    } finally {
      if (isFresh) await live.close();
    }
  }

  #job({ address, facts }: LiveTarget, cell: Cell, cellIndex: number, round: number): LoadJob {
    const { workload, load, numSessions = Number.POSITIVE_INFINITY, durationMs = Number.POSITIVE_INFINITY } = cell;
    const seed = seedFrom(this.report.plan.seed, cellIndex, round);
    return { ...address, traffic: { workload, server: facts, seed }, load, numSessions, durationMs };
  }

  /** Warms up once for each target and cell. */
  async #warmUp(live: LiveTarget, cell: Cell, cellIndex: number): Promise<void> {
    const key = JSON.stringify([live.name, cell.name]);
    if (this.#warm.has(key)) return;
    this.#warm.add(key);
    const job = this.#job(live, cell, cellIndex, WARM_UP_ROUND);
    const streams = cell.load.kind === "closed" ? cell.load.concurrency : MAX_WARM_UP_REQUESTS;
    const concurrency = Math.min(streams, MAX_WARM_UP_REQUESTS);
    await this.generator.run({
      ...job,
      traffic: { ...job.traffic, workload: warmUpOf(cell.workload) },
      load: { kind: "closed", concurrency, rampMs: 0 },
      numSessions: concurrency,
    });
  }

  async #measure(live: LiveTarget, job: LoadJob, place: RunPlace): Promise<BenchRun> {
    const startedAt = new Date().toISOString();
    const processWatch = live.pid === undefined ? undefined : new ProcessWatch(live.pid);
    const metricsWatch = await MetricsWatch.start(live.address.url);
    let result: LoadResult;
    let process: BenchRun["process"];
    let server: BenchRun["server"];
    try {
      result = await this.generator.run(job, (progress) => this.events.onProgress(place, progress));
    } finally {
      process = processWatch?.finish();
      server = await metricsWatch.finish();
    }
    const counted = result.records.filter((record) => record.session >= (place.cell.numUncounted ?? 0));
    const records = counted.map((record) => movedBy(record, -result.startMs));
    const metrics = measureRun(records, job.load, this.report.plan.slo);
    return {
      target: place.target,
      cell: place.cell.name,
      round: place.round,
      startedAt,
      metrics,
      ...(this.options.isFreshEachRun && { command: live.command }),
      voidReasons: [...voidReasons(metrics, result.lag.typicalMs), ...(result.hasGivenUp ? [GAVE_UP] : [])],
      client: clientOf(result),
      server,
      process,
      requests: records.map(requestOf),
    };
  }

  #isSaturated(cells: readonly Cell[], index: number): boolean {
    const before = cells[index - 1];
    if (before?.workloadName !== cells[index]!.workloadName) return false;
    const speed = (cell: Cell) =>
      geometricMean(this.report.runs.filter((run) => run.cell === cell.name).map((run) => throughputOf(run.metrics)))
        ?.value ?? 0;
    return speed(cells[index]!) < SATURATION_GAIN * speed(before);
  }
}

function isUnder({ name }: ServerUnderTest, { targets }: Cell): boolean {
  return targets === undefined || targets.includes(name);
}

function movedBy(record: RequestRecord, ms: number): RequestRecord {
  return {
    ...record,
    intendedMs: record.intendedMs + ms,
    sentMs: record.sentMs + ms,
    lastMs: record.lastMs + ms,
    chunkAtMs: record.chunkAtMs.map((atMs) => atMs + ms),
    answerAtMs: record.answerAtMs === undefined ? undefined : record.answerAtMs + ms,
  };
}

const clientOf = ({ lag, numWorkers }: LoadResult): BenchRun["client"] => ({ ...lag, numWorkers });

/** Times are rounded to microseconds. */
function requestOf(record: RequestRecord): BenchRequest {
  const rounded = (ms: number) => Math.round(1000 * ms) / 1000;
  return {
    session: record.session,
    turn: record.turn,
    intendedMs: rounded(record.intendedMs),
    sentMs: rounded(record.sentMs),
    lastMs: rounded(record.lastMs),
    firstMs: record.chunkAtMs[0] === undefined ? undefined : rounded(record.chunkAtMs[0]),
    chunks: record.chunkAtMs.length,
    prompt: record.numPromptTokens,
    cached: record.numCachedTokens,
    output: record.numOutputTokens,
    finish: record.finishReason,
    failure: record.failure?.kind,
  };
}
