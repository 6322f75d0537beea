/** Tables for every form of the report: columns of cells, ratios, and facts about machine, plan and servers. */
import type { BenchReport, PlannedCell } from "../results/schema.js";
import type { CellRatio, CellSummary, Ratios } from "./summary.js";
import {
  figure,
  milliseconds,
  NONE,
  percent,
  percentileText,
  rangeText,
  ratioText,
  voidMark,
  withRange,
} from "./words.js";

export interface Column {
  readonly title: string;
  readonly text: (summary: CellSummary) => string;
}

/** Leaves out columns without any value. */
function filled(columns: readonly Column[], summaries: readonly CellSummary[]): Column[] {
  return columns.filter(({ text }) => summaries.some((summary) => ![NONE, ""].includes(text(summary))));
}

const isOfVectors = (cells: readonly { readonly cell: PlannedCell }[]): boolean =>
  cells.some(({ cell }) => cell.workload.kind === "texts");

/** The unit that throughput counts, and the time to the first output. */
export const unitsOf = (cells: readonly { readonly cell: PlannedCell }[]): readonly [string, string] =>
  isOfVectors(cells) ? ["texts/s", "latency"] : ["output tokens/s", "TTFT"];

/** A text's vector arrives as a whole, so that its latency is the time of the whole answer. */
function vectorColumns(): Column[] {
  return [
    { title: "cell", text: (each) => each.cell.name + voidMark(each.isVoid) },
    { title: "server", text: (each) => each.target },
    { title: "texts/s", text: (each) => withRange(each.outputTokensPerS) },
    { title: "tokens/s", text: (each) => figure(each.totalTokensPerS.median - each.outputTokensPerS.median) },
    { title: "tokens/text", text: (each) => figure(each.promptTokens / each.outputTokens) },
    { title: "latency p50", text: (each) => percentileText(each.e2eMs, "p50") },
    { title: "p99", text: (each) => percentileText(each.e2eMs, "p99") },
  ];
}

export function resultColumns(summaries: readonly CellSummary[]): Column[] {
  if (isOfVectors(summaries)) return vectorColumns();
  const columns: Column[] = [
    { title: "cell", text: (each) => each.cell.name + voidMark(each.isVoid) },
    { title: "server", text: (each) => each.target },
    { title: "output tokens/s", text: (each) => withRange(each.outputTokensPerS) },
    {
      title: "of the roofline",
      text: ({ rooflineTokensPerS: roof, outputTokensPerS }) =>
        roof === undefined ? NONE : percent(outputTokensPerS.median / roof),
    },
    { title: "requests/s", text: (each) => figure(each.requestsPerS.median) },
    { title: "tokens/s/user", text: (each) => figure(each.tokensPerSPerUser?.median) },
    { title: "TTFT p50", text: (each) => percentileText(each.ttftMs, "p50") },
    { title: "p95", text: (each) => percentileText(each.ttftMs, "p95") },
    { title: "p99", text: (each) => percentileText(each.ttftMs, "p99") },
    { title: "TPOT p50", text: (each) => percentileText(each.tpotMs, "p50") },
    { title: "p95", text: (each) => percentileText(each.tpotMs, "p95") },
    { title: "p99", text: (each) => percentileText(each.tpotMs, "p99") },
    { title: "E2E p50", text: (each) => percentileText(each.e2eMs, "p50") },
    { title: "SLO met", text: (each) => percent(each.attainment) },
    { title: "good requests/s", text: (each) => figure(each.goodRequestsPerS) },
    { title: "per M output tokens", text: (each) => figure(each.cost?.perMillionOutput) },
    { title: "per M tokens", text: (each) => figure(each.cost?.perMillionTotal) },
    { title: "per 1,000 requests", text: (each) => figure(each.cost?.perThousandRequests) },
  ];
  const hasOneTarget = new Set(summaries.map((summary) => summary.target)).size === 1;
  return filled(columns, summaries).filter(({ title }) => title !== "server" || !hasOneTarget);
}

/** Titles of details of generated tokens. */
const OF_TOKENS: readonly string[] = ["TTFT p50, 95 %", "whole run, tokens/s", "total tokens/s", "tokens/chunk"];

/** Further columns: the server's metrics, and details of the chunks. */
export function detailColumns(summaries: readonly CellSummary[]): Column[] {
  const gibibytes = (bytes: number | undefined) => (bytes === undefined ? NONE : `${figure(bytes / 2 ** 30)} GiB`);
  const isShown = ({ title }: Column) => !isOfVectors(summaries) || !OF_TOKENS.includes(title);
  return filled(
    [
      { title: "cell", text: (each) => each.cell.name },
      { title: "server", text: (each) => each.target },
      { title: "runs", text: (each) => String(each.numRuns) },
      { title: "requests", text: (each) => String(each.numRequests) },
      { title: "failed", text: (each) => (each.numFailed === 0 ? NONE : String(each.numFailed)) },
      { title: "TTFT p50, 95 %", text: (each) => rangeText(each.ttftP50Interval) },
      { title: "whole run, tokens/s", text: (each) => figure(each.wholeRunTokensPerS.median) },
      { title: "total tokens/s", text: (each) => figure(each.totalTokensPerS.median) },
      { title: "ITL p50", text: (each) => milliseconds(each.itlP50Ms) },
      { title: "ITL p99", text: (each) => milliseconds(each.itlP99Ms) },
      { title: "ITL p99 beside prompts", text: (each) => milliseconds(each.itlBesidePromptsP99Ms) },
      { title: "ITL p99 undisturbed", text: (each) => milliseconds(each.itlUndisturbedP99Ms) },
      { title: "tokens/chunk", text: (each) => figure(each.tokensPerChunk) },
      { title: "prompt from cache", text: (each) => (each.cachedShare === 0 ? NONE : percent(each.cachedShare)) },
      { title: "read late", text: (each) => milliseconds(each.clientLagMs) },
      { title: "sent late", text: (each) => milliseconds(each.sendDelayMs) },
      { title: "drafts accepted", text: (each) => percent(each.server.acceptance) },
      { title: "tokens/draft", text: (each) => figure(each.server.acceptedLength) },
      { title: "server queue", text: (each) => milliseconds(each.server.queueMs) },
      { title: "KV used, most", text: (each) => percent(each.server.maxKvUsage) },
      { title: "running, most", text: (each) => figure(each.server.maxRunning) },
      { title: "preemptions", text: (each) => figure(each.server.preemptions || undefined) },
      { title: "CPU cores", text: (each) => figure(each.process?.cpuCores) },
      { title: "memory", text: (each) => gibibytes(each.process?.peakMemoryBytes) },
    ],
    summaries,
  ).filter(isShown);
}

export function ratioRows({ first, second, cells }: Ratios): string[][] {
  const hasTpot = !isOfVectors(cells);
  const row = ({ cell, isVoid, throughput, ttft, tpot }: CellRatio) => [
    cell.name + voidMark(isVoid),
    ratioText(throughput),
    ratioText(ttft),
    ...(hasTpot ? [ratioText(tpot)] : []),
  ];
  const [throughput, ttft] = unitsOf(cells);
  const titles = [throughput, `${ttft} (less is better)`, ...(hasTpot ? ["TPOT (less is better)"] : [])];
  return [[`${first} ÷ ${second}`, ...titles], ...cells.map(row)];
}

export function titleOf({ targets, plan }: BenchReport): string {
  const { model } = targets[0]!;
  return plan.ablation === undefined
    ? `${targets.map((target) => target.name).join(" and ")}: ${plan.scenario}`
    : `Gain of each optimisation of ${plan.ablation.engine ?? "millrace"}: ${model}`;
}

/** [name, facts] of each server. */
export function serverFacts({ targets, runs }: BenchReport): (readonly [string, string])[] {
  return targets.map((target) => {
    const lengths =
      target.leastCosine !== undefined
        ? `least cosine ${target.leastCosine.toFixed(6)}`
        : target.ignoresEos
          ? "exact lengths"
          : "lengths chosen by the model";
    const version = target.version === undefined ? "" : ` ${target.version}`;
    const commands = runs.flatMap((run) => (run.target === target.name ? (run.command ?? []) : []));
    const size = commands.every((each) => each === target.command)
      ? ""
      : " (under the first cell; other cells have other sizes)";
    const command = target.command === undefined ? "" : `; ${target.command}${size}`;
    return [target.name, `${target.model}${version}; prompts as ${target.promptsAs}, ${lengths}${command}`];
  });
}

/** [name, value] of facts about the machine and the plan. */
export function factsOf({ createdAt, machine, versions, plan }: BenchReport): (readonly [string, string])[] {
  const gibibytes = (machine.memoryBytes / 2 ** 30).toFixed(0);
  const slo = plan.slo;
  const limits = (["ttftMs", "tpotMs", "e2eMs"] as const).flatMap((name) =>
    slo?.[name] === undefined ? [] : `${name.slice(0, -2).toUpperCase()} ${slo[name]} ms`,
  );
  return [
    [
      "measured",
      `${createdAt.slice(0, 16).replace("T", " ")} UTC, scenario ${plan.scenario}, ${plan.rounds} round${plan.rounds === 1 ? "" : "s"}, seed ${plan.seed}`,
    ],
    [
      "load from",
      `${machine.cpu}, ${machine.numCpus} CPUs, ${gibibytes} GiB, ${machine.platform}, Node ${versions.node}, millrace ${versions.millrace}`,
    ],
    ...(plan.scale === undefined ? [] : [["lengths", `${plan.scale} times the lengths in the cells' names`] as const]),
    ...(slo === undefined ? [] : [["objective", limits.join(", ")] as const]),
    ...(plan.pricePerHour === undefined ? [] : [["price", `${figure(plan.pricePerHour)} an hour`] as const]),
  ];
}

export const DEFINITIONS: readonly (readonly [string, string])[] = [
  [
    "TTFT",
    "first token (reasoning too) − sending; the time from when a request was due is in the JSON as intendedTtftMs",
  ],
  ["TPOT", "(last − first token) ÷ (tokens − 1), tokens as the server's usage counts them"],
  ["E2E", "last token − sending"],
  [
    "ITL",
    "time between arrivals that brought tokens; read it with tokens/chunk. Beside prompts: while another request waited for its first token; undisturbed: the others",
  ],
  [
    "output tokens/s",
    "on the plateau, without ramp and drain; median of runs (95 % interval, t distribution on logarithms)",
  ],
  [
    "roofline",
    "output tokens/s at most: the longer of reading the weights once a step (and each sequence's keys and values) at the bandwidth of all cores, and of all products at the speed of their instructions on registers, both measured around the runs (medians). Accepted drafts can exceed it",
  ],
  ["tokens/s/user", "1 ÷ median TPOT"],
  ["percentiles", "nearest rank over the requests of all runs; left out where samples are too few (p95: 20, p99: 100)"],
  ["SLO met", "share of all requests offered that met every limit; failed ones did not"],
  ["ratios", "of runs paired by round, geometric mean (95 % interval of the paired logarithms)"],
  [
    "read late, sent late",
    "what the load generator itself added: the median over intervals of 50 ms, waits for a CPU included; the median over requests",
  ],
  [
    "void",
    "answers were read later than 1 % of TPOT and later than 200 µs or 1 % of E2E, whichever is less; or requests were sent later than 1 % of TPOT for each token of the answer. Such runs are left out where others remain, and no headline or frontier holds them",
  ],
];
