/**
 * Runs a plan: each round measures all targets in turn, and the next round in reverse order (ABBA). All targets get the
 * same prompts, which are new in each round. Finished runs are in the report even after an error.
 */
import { toMillraceError } from "../../core/errors.js";
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
import { isAlive, type LiveTarget, openTarget, type ServerUnderTest, withoutFolder } from "./target.js";

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

/**
 * When launched targets start. never: once, before the first run, so all share the machine. run: for each run, so they
 * take turns cell by cell. round: for each round of the cells of one size, so a server that starts slowly stays up for
 * several cells, and targets take turns round by round.
 */
export type Restarts = "never" | "run" | "round";

interface RunnerOptions {
  readonly cells: readonly Cell[];
  readonly restarts: Restarts;
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
  /** Cells whose warm-up each running server has had. */
  readonly #warm = new WeakMap<LiveTarget, Set<string>>();
  /** The reason why a target did not start, by its name and size: it is not started again. */
  readonly #unstarted = new Map<string, string>();

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
    const { cells, restarts } = this.options;
    const { rounds, stopsWhenSaturated } = this.report.plan;
    for (const group of restarts === "round" ? cellsBySize(cells) : cells.map((cell) => [cell])) {
      if (this.#saturated.has(group[0]!.workloadName)) continue;
      for (let round = 1; round <= rounds; round++) {
        const order = [...this.targets.keys()];
        for (const target of round % 2 === 1 ? order : order.reverse()) {
          await this.#runTarget(target, group, round);
          if (this.#hasEnded) return false;
        }
      }
      if (stopsWhenSaturated && this.#isSaturated(cells, cells.indexOf(group[0]!))) {
        this.#saturated.add(group[0]!.workloadName);
      }
    }
    return !this.#hasEnded;
  }

  get #hasEnded(): boolean {
    return this.options.signal.aborted || this.#isGone;
  }

  /** Measures one target under the group's cells, except where the report has the run already. */
  async #runTarget(targetIndex: number, group: readonly Cell[], round: number): Promise<void> {
    const target = this.targets[targetIndex]!;
    const has = ({ name }: Cell) =>
      this.report.runs.some((run) => run.cell === name && run.round === round && run.target === target.name);
    const todo = group.filter((cell) => isUnder(target, cell) && !has(cell));
    const [first] = todo;
    if (first === undefined || this.#hasEnded) return;
    const isFresh = this.options.restarts !== "never" && target.launch !== undefined;
    const opened = this.live[targetIndex]!;
    if (isFresh) this.events.onRunStart(this.#placeOf(first, round, target.name));
    const live = isFresh ? await this.#started(target, first, opened) : opened;
    if (typeof live === "string") {
      for (const cell of todo) this.#addVoid(this.#placeOf(cell, round, target.name), live);
      return;
    }
    try {
      for (const cell of todo) if (!this.#hasEnded) await this.#runOnce(live, cell, round);
    } finally {
      if (isFresh) await live.close();
    }
  }

  /** @returns the reason why the target did not start, if the benchmark continues without it */
  async #started(target: ServerUnderTest, { shape }: Cell, { facts }: LiveTarget): Promise<LiveTarget | string> {
    const key = JSON.stringify([target.name, shape]);
    const known = this.#unstarted.get(key);
    if (known !== undefined) return known;
    try {
      return await openTarget(target, shape, this.options.signal, facts);
    } catch (thrown) {
      if (target.factsOf === undefined || this.options.signal.aborted) throw thrown;
      // The last lines say most; reports omit paths of the machine.
      const lines = toMillraceError(thrown).message.trimEnd().split("\n").slice(-2).join(" ");
      const reason = `the server did not start: ${withoutFolder(lines).slice(-300)}`;
      this.#unstarted.set(key, reason);
      return reason;
    }
  }

  #addVoid(place: RunPlace, reason: string): void {
    const run: BenchRun = {
      target: place.target,
      cell: place.cell.name,
      round: place.round,
      startedAt: new Date().toISOString(),
      metrics: measureRun([], place.cell.load, this.report.plan.slo),
      voidReasons: [reason],
      client: { numChunks: 0, meanMs: 0, maxMs: 0, cpuWaitMs: 0, utilization: 0, numWorkers: 0 },
      requests: [],
    };
    this.report.runs.push(run);
    this.events.onRun(place, run);
  }

  #placeOf(cell: Cell, round: number, target: string): RunPlace {
    const { runs, plan } = this.report;
    const numRuns =
      plan.rounds * this.options.cells.flatMap((each) => this.targets.filter((one) => isUnder(one, each))).length;
    return { cell, round, target, numRuns, numBefore: runs.length };
  }

  async #runOnce(live: LiveTarget, cell: Cell, round: number): Promise<void> {
    const place = this.#placeOf(cell, round, live.name);
    this.events.onRunStart(place);
    const cellIndex = this.options.cells.indexOf(cell);
    const job = this.#job(live, cell, cellIndex, round);
    // A server that starts for one run is measured in its initial state, with an empty prefix cache.
    if (this.options.restarts !== "run" || live.command === undefined) await this.#warmUp(live, cell, cellIndex);
    if (this.options.signal.aborted) return;
    const run = await this.#measure(live, job, place);
    if (this.options.signal.aborted) run.voidReasons.push(STOPPED);
    else this.#isGone = run.metrics.failures.length > 0 && !(await isAlive(live));
    if (this.#isGone) run.voidReasons.push(GONE);
    this.report.runs.push(run);
    this.events.onRun(place, run);
  }

  #job({ address, facts }: LiveTarget, cell: Cell, cellIndex: number, round: number): LoadJob {
    const { workload, load, numSessions = Number.POSITIVE_INFINITY, durationMs = Number.POSITIVE_INFINITY } = cell;
    const seed = seedFrom(this.report.plan.seed, cellIndex, round);
    return { ...address, traffic: { workload, server: facts, seed }, load, numSessions, durationMs };
  }

  /** Warms up once for each running server and cell. */
  async #warmUp(live: LiveTarget, cell: Cell, cellIndex: number): Promise<void> {
    const warm = this.#warm.get(live) ?? new Set();
    if (warm.has(cell.name)) return;
    this.#warm.set(live, warm.add(cell.name));
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
      ...(this.options.restarts !== "never" && { command: live.command }),
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

/** Cells for servers of the same size, in the order of their first cell. */
function cellsBySize(cells: readonly Cell[]): Cell[][] {
  const groups = new Map<string, Cell[]>();
  for (const cell of cells) {
    const key = JSON.stringify(cell.shape);
    groups.set(key, [...(groups.get(key) ?? []), cell]);
  }
  return [...groups.values()];
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
