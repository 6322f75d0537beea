/**
 * Summaries of cells from their runs: medians over runs, distributions over all requests, and ratios of targets by
 * paired rounds.
 */

import { median } from "../../core/statistics.js";
import { type Cost, costOf } from "../measure/cost.js";
import { type Estimate, geometricMean, MIN_RUNS, pairedRatio, variation } from "../measure/intervals.js";
import { distributionOf, type Interval, percentileInterval } from "../measure/percentiles.js";
import { throughputOf, timesOf } from "../measure/run-metrics.js";
import type { BenchReport, BenchRun, BenchTarget, Distribution, PlannedCell } from "../results/schema.js";
import { type MeanTraffic, rooflineTokensPerS } from "./roofline.js";

/** The median of a cell's runs, with the interval of their mean on a logarithmic scale. */
export interface RunMedian extends Partial<Interval> {
  readonly median: number;
  /** Standard deviation ÷ mean. */
  readonly variation: number;
}

export interface CellSummary {
  readonly target: string;
  readonly cell: PlannedCell;
  /** Number of runs that count, and reasons of void ones. If all runs are void, their figures are shown and marked. */
  readonly numRuns: number;
  readonly voidReasons: readonly string[];
  readonly isVoid: boolean;
  readonly numRequests: number;
  readonly numFailed: number;
  /** Throughput on the plateau or, without a plateau, over the whole run. */
  readonly outputTokensPerS: RunMedian;
  readonly hasPlateau: boolean;
  readonly wholeRunTokensPerS: RunMedian;
  readonly totalTokensPerS: RunMedian;
  /** Answered requests of the whole run ÷ its duration. */
  readonly requestsPerS: RunMedian;
  /** 1 ÷ TPOT. */
  readonly tokensPerSPerUser: RunMedian | undefined;
  readonly ttftMs: Distribution | undefined;
  readonly ttftP50Interval: Interval | undefined;
  readonly tpotMs: Distribution | undefined;
  readonly e2eMs: Distribution | undefined;
  /** ITL of each run's chunks, medians over runs. */
  readonly itlP50Ms: number | undefined;
  readonly itlP99Ms: number | undefined;
  readonly itlBesidePromptsP99Ms: number | undefined;
  readonly itlUndisturbedP99Ms: number | undefined;
  readonly tokensPerChunk: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Cached share of the prompt tokens, from usage. */
  readonly cachedShare: number;
  readonly attainment: number | undefined;
  readonly goodRequestsPerS: number | undefined;
  readonly cost: Cost | undefined;
  /** Highest output tokens/s that memory and arithmetic allow, without drafts. */
  readonly rooflineTokensPerS: number | undefined;
  readonly drift: number | undefined;
  /** Delays of the load generator: medians over runs. */
  readonly clientLagMs: number;
  readonly sendDelayMs: number | undefined;
  readonly server: NonNullable<BenchRun["server"]>;
  readonly process: BenchRun["process"];
  /** Sorted samples for charts, in milliseconds. */
  readonly ttftsMs: readonly number[];
  readonly tpotsMs: readonly number[];
}

/** In the plan's order, targets within cells; cells without runs are left out. */
export function summarize(report: BenchReport): CellSummary[] {
  return report.plan.cells.flatMap((cell) =>
    report.targets.flatMap((target) => {
      const runs = report.runs.filter((run) => run.cell === cell.name && run.target === target.name);
      return runs.length === 0 ? [] : summaryOf(target, cell, runs, report);
    }),
  );
}

function summaryOf(
  about: BenchTarget,
  cell: PlannedCell,
  all: readonly BenchRun[],
  { plan: { pricePerHour }, ceilings }: BenchReport,
): CellSummary {
  const counted = all.filter((run) => run.voidReasons.length === 0);
  const runs = counted.length > 0 ? counted : all;
  const times = runs
    .flatMap((run) => run.requests)
    .filter((request) => request.failure === undefined)
    .map((request) =>
      timesOf({ ...request, firstMs: request.firstMs ?? request.lastMs, numOutputTokens: request.output }),
    );
  const ttfts = times.map((each) => each.ttftMs);
  const tpots = times.flatMap((each) => each.tpotMs ?? []);
  const sum = (value: (run: BenchRun) => number) => runs.reduce((total, run) => total + value(run), 0);
  const mean = (value: (run: BenchRun) => number) => sum(value) / runs.length;
  // Figures of plateaus and of whole runs are never mixed.
  const hasPlateau = haveAllPlateaus(runs);
  const of = (value: (run: BenchRun) => number | undefined) => medianOf(runs.flatMap((run) => value(run) ?? []));
  const outputTokens = sum((run) => run.metrics.outputTokens);
  const promptTokens = sum((run) => run.metrics.promptTokens);
  const ascending = (values: readonly number[]) => [...values].sort((a, b) => a - b);
  return {
    target: about.name,
    cell,
    numRuns: counted.length,
    isVoid: counted.length === 0,
    voidReasons: [...new Set(all.flatMap((run) => run.voidReasons))],
    numRequests: sum((run) => run.metrics.numRequests),
    numFailed: sum((run) => run.metrics.failures.reduce((count, failure) => count + failure.count, 0)),
    outputTokensPerS: of((run) => speedOf(run, hasPlateau))!,
    hasPlateau,
    wholeRunTokensPerS: of((run) => run.metrics.outputTokensPerS)!,
    totalTokensPerS: of((run) => (hasPlateau ? run.metrics.plateau! : run.metrics).totalTokensPerS)!,
    requestsPerS: of(({ metrics }) => (1000 * (metrics.e2eMs?.count ?? 0)) / (metrics.durationMs || 1))!,
    tokensPerSPerUser: of((run) => {
      const tpotMs = middleOf(run.metrics.tpotMs);
      return tpotMs === undefined || tpotMs === 0 ? undefined : 1000 / tpotMs;
    }),
    ttftMs: distributionOf(ttfts),
    // Requests of one run are not independent samples of another run.
    ttftP50Interval: runs.length < MIN_RUNS ? undefined : percentileInterval(ttfts, 0.5),
    tpotMs: distributionOf(tpots),
    e2eMs: distributionOf(times.map((each) => each.e2eMs)),
    itlP50Ms: of((run) => run.metrics.itlMs?.percentiles.p50)?.median,
    itlP99Ms: of((run) => run.metrics.itlMs?.percentiles.p99)?.median,
    itlBesidePromptsP99Ms: of((run) => run.metrics.itlBesidePromptsMs?.percentiles.p99)?.median,
    itlUndisturbedP99Ms: of((run) => run.metrics.itlUndisturbedMs?.percentiles.p99)?.median,
    tokensPerChunk: mean((run) => run.metrics.tokensPerChunk),
    promptTokens,
    outputTokens,
    cachedShare: sum((run) => run.metrics.cachedTokens) / Math.max(1, promptTokens),
    attainment: of((run) => run.metrics.slo?.attainment)?.median,
    goodRequestsPerS: of((run) => run.metrics.slo?.goodRequestsPerS)?.median,
    cost:
      pricePerHour === undefined
        ? undefined
        : costOf(
            runs.map((run) => run.metrics),
            pricePerHour,
          ),
    rooflineTokensPerS:
      about.work === undefined || ceilings === undefined
        ? undefined
        : rooflineTokensPerS(about.work, ceilings, trafficOf(cell, runs)),
    drift: of((run) => run.metrics.plateau?.drift)?.median,
    clientLagMs: of(({ client }) => client.typicalMs ?? client.meanMs + client.cpuWaitMs)!.median,
    sendDelayMs: of((run) => run.metrics.sendDelayMs?.percentiles.p50)?.median,
    server: serverOf(runs),
    process: processOf(runs),
    ttftsMs: ascending(ttfts),
    tpotsMs: ascending(tpots),
  };
}

/** Mean traffic of the answered requests. */
function trafficOf({ load }: PlannedCell, runs: readonly BenchRun[]): MeanTraffic {
  const sum = (value: (run: BenchRun) => number) => runs.reduce((total, run) => total + value(run), 0);
  const each = (value: (metrics: BenchRun["metrics"]) => number) =>
    sum((run) => value(run.metrics)) /
    Math.max(
      1,
      sum((run) => run.metrics.ttftMs?.count ?? 0),
    );
  return {
    concurrency: load.concurrency ?? Math.max(1, sum((run) => run.metrics.concurrency) / runs.length),
    promptTokens: each((metrics) => metrics.promptTokens),
    computedPromptTokens: each((metrics) => metrics.promptTokens - metrics.cachedTokens),
    outputTokens: each((metrics) => metrics.outputTokens),
  };
}

const haveAllPlateaus = (runs: readonly BenchRun[]): boolean => runs.every((run) => run.metrics.plateau !== undefined);

const speedOf = ({ metrics }: BenchRun, isOfPlateau: boolean): number =>
  isOfPlateau ? throughputOf(metrics) : metrics.outputTokensPerS;

/** The median, or the mean with too few samples for a median. */
function middleOf(distribution: Distribution | undefined): number | undefined {
  return distribution?.percentiles.p50 ?? distribution?.mean;
}

function medianOf(values: readonly number[]): RunMedian | undefined {
  if (values.length === 0) return undefined;
  // Without any answer there is no logarithm.
  const interval = values.every((value) => value > 0) ? geometricMean(values) : undefined;
  const { low, high } = interval ?? {};
  const bounds = low === undefined || high === undefined ? {} : { low, high };
  return { median: median(values), variation: variation(values), ...bounds };
}

function serverOf(runs: readonly BenchRun[]): CellSummary["server"] {
  const servers = runs.flatMap((run) => run.server ?? []);
  const names = ["queueMs", "acceptance", "acceptedLength", "cacheHitShare", "preemptions", "medianKvUsage"] as const;
  const medians = names.map((name) => [name, medianOf(servers.flatMap((server) => server[name] ?? []))?.median]);
  const most = (name: "maxKvUsage" | "maxRunning") => {
    const values = servers.flatMap((server) => server[name] ?? []);
    return values.length === 0 ? undefined : Math.max(...values);
  };
  return { ...Object.fromEntries(medians), maxKvUsage: most("maxKvUsage"), maxRunning: most("maxRunning") };
}

function processOf(runs: readonly BenchRun[]): BenchRun["process"] {
  const all = runs.flatMap((run) => run.process ?? []);
  if (all.length === 0) return undefined;
  return {
    cpuCores: median(all.map((each) => each.cpuCores)),
    peakMemoryBytes: Math.max(...all.map((each) => each.peakMemoryBytes)),
  };
}

/** One target relative to another: above 1 is more. */
export interface CellRatio {
  readonly cell: PlannedCell;
  /** No round counts for both: the ratios use void runs. */
  readonly isVoid: boolean;
  readonly throughput: Estimate | undefined;
  readonly ttft: Estimate | undefined;
  readonly tpot: Estimate | undefined;
}

export interface Ratios {
  readonly first: string;
  readonly second: string;
  readonly cells: readonly CellRatio[];
  /**
   * Ratio of the times that each target needs, at its speed in each cell, for the same tokens in all cells; by round.
   */
  readonly throughput: Estimate | undefined;
  /** Ratio of the sums of all cells' medians, by round. */
  readonly ttft: Estimate | undefined;
  /** No round has counting runs in all cells: the two ratios above use all runs. */
  readonly isVoid: boolean;
}

interface Pair {
  readonly cell: string;
  readonly round: number;
  readonly first: BenchRun;
  readonly second: BenchRun;
  readonly isVoid: boolean;
}

/** The pairs that count, or all pairs if none counts. */
function counted(pairs: readonly Pair[]): readonly Pair[] {
  return pairs.every((pair) => pair.isVoid) ? pairs : pairs.filter((pair) => !pair.isVoid);
}

/** Ratios of the first target to each other one, by rounds that both have. */
export function ratiosOf(report: BenchReport): Ratios[] {
  const [first, ...others] = report.targets.map((target) => target.name);
  return others.map((other) => ratiosBetween(report, first!, other)).filter(({ cells }) => cells.length > 0);
}

/** Ratios of two targets, paired by rounds that both have. */
export function ratiosBetween(report: BenchReport, first: string, second: string): Ratios {
  const pairs = report.runs.flatMap((run): Pair[] => {
    if (run.target !== first) return [];
    const { cell, round } = run;
    const other = report.runs.find((each) => each.target === second && each.cell === cell && each.round === round);
    if (other === undefined) return [];
    const isVoid = run.voidReasons.length + other.voidReasons.length > 0;
    return [{ cell, round, first: run, second: other, isVoid }];
  });
  const numCells = new Set(pairs.map((pair) => pair.cell)).size;
  const sound = wholeRounds(counted(pairs), numCells);
  const rounds = sound.length > 0 ? sound : wholeRounds(pairs, numCells);
  return {
    first,
    second,
    isVoid: rounds.some((round) => round.some((pair) => pair.isVoid)),
    throughput: ratioOfRounds(rounds, (round, side) => 1 / timeForCommonTokens(round, side)),
    ttft: ratioOfRounds(rounds, (round, side) =>
      // If a cell was not answered, the round has no sum.
      round.reduce((sum, pair) => sum + (middleOf(pair[side].metrics.ttftMs) ?? Number.NaN), 0),
    ),
    cells: report.plan.cells.flatMap((cell): CellRatio[] => {
      const own = counted(pairs.filter((pair) => pair.cell === cell.name));
      if (own.length === 0) return [];
      const ratio = (value: (run: BenchRun) => number | undefined) =>
        ratioOfRounds(
          own.map((pair) => [pair]),
          ([pair], side) => value(pair![side]) ?? 0,
        );
      const hasPlateau = haveAllPlateaus(own.flatMap((pair) => [pair.first, pair.second]));
      return [
        {
          cell,
          isVoid: own[0]!.isVoid,
          throughput: ratio((run) => speedOf(run, hasPlateau)),
          ttft: ratio((run) => middleOf(run.metrics.ttftMs)),
          tpot: ratio((run) => middleOf(run.metrics.tpotMs)),
        },
      ];
    }),
  };
}

/** Rounds with all cells: others would compare different sums. */
function wholeRounds(pairs: readonly Pair[], numCells: number): Pair[][] {
  return [...new Set(pairs.map((pair) => pair.round))]
    .map((round) => pairs.filter((pair) => pair.round === round))
    .filter((round) => round.length === numCells);
}

type Side = "first" | "second";

/**
 * A faster server may produce more tokens within the time limit, so both are compared at the number of tokens that both
 * produced.
 */
function timeForCommonTokens(round: readonly Pair[], side: Side): number {
  return round.reduce((sum, pair) => {
    const { outputTokens, durationMs } = pair[side].metrics;
    const common = Math.min(pair.first.metrics.outputTokens, pair.second.metrics.outputTokens);
    return sum + (common * durationMs) / outputTokens;
  }, 0);
}

/** Ratio of `value` over each round's two sides; rounds without answers are left out. */
function ratioOfRounds(
  rounds: readonly (readonly Pair[])[],
  value: (round: readonly Pair[], side: Side) => number,
): Estimate | undefined {
  const both = rounds
    .map((round) => ({ a: value(round, "first"), b: value(round, "second") }))
    .filter((each) => [each.a, each.b].every((one) => one > 0 && Number.isFinite(one)));
  return pairedRatio(
    both.map(({ a }) => a),
    both.map(({ b }) => b),
  );
}

/** Leaves out cells in which some server has void runs only; the others can be compared. */
export function comparableCells(summaries: readonly CellSummary[]): CellSummary[] {
  const unsound = new Set(summaries.filter((summary) => summary.isVoid).map((summary) => summary.cell.name));
  return summaries.filter((summary) => !unsound.has(summary.cell.name));
}

/** The Pareto frontier: points that count, and that no other point of the same target dominates in both figures. */
export function frontierOf(summaries: readonly CellSummary[]): CellSummary[] {
  const counted = summaries.filter((summary) => !summary.isVoid && summary.tokensPerSPerUser !== undefined);
  const perUser = (each: CellSummary) => each.tokensPerSPerUser!.median;
  const total = (each: CellSummary) => each.outputTokensPerS.median;
  const isBeaten = (point: CellSummary) =>
    counted.some(
      (other) =>
        other.target === point.target &&
        perUser(other) >= perUser(point) &&
        total(other) >= total(point) &&
        (perUser(other) > perUser(point) || total(other) > total(point)),
    );
  return counted.filter((point) => !isBeaten(point));
}
