/** Evidence from a server's runs under the workload: the figures that name a bottleneck. */
import type { BenchRun } from "../../bench/results/schema.js";
import type { Entry, Workload } from "../../bench/workload/workload.js";
import { turnsOf } from "../../bench/workload/workload.js";
import { median } from "../../core/statistics.js";
import { type Configuration, numberOf } from "./configuration.js";
import type { TunedEngine } from "./tuned-engines.js";

export interface Evidence {
  /** Clients of a closed load; undefined for arrivals at a rate. */
  readonly numClients: number | undefined;
  /** Seats of all instances together; `threads` is also their sum. */
  readonly seats: number;
  readonly threads: number;
  /** Cores that the server may use. */
  readonly cores: number;
  /** Cores' worth of CPU time that the server used. */
  readonly cpuCores: number | undefined;
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Mean time in the server's queue ÷ mean time to the first token. */
  readonly queueShare: number;
  readonly maxRunning: number | undefined;
  readonly maxKvUsage: number | undefined;
  readonly preemptionsPerRequest: number;
  /** Share of the prompts' tokens that an earlier request had at the same position, as far as the workload shows. */
  readonly repeatedShare: number;
  /** Share of the prompts' text that an earlier prompt had at another position; 0 for workloads without texts. */
  readonly movedShare: number;
  readonly cacheHitShare: number | undefined;
  /** Accepted ÷ draft tokens; undefined without drafts. */
  readonly acceptance: number | undefined;
  /** Wrong draft tokens per token of the answers. */
  readonly rejectedPerToken: number;
  /** Share of the steps' time that prompts took. */
  readonly prefillShare: number | undefined;
  /** Share of the steps' time spent inside the kernels. */
  readonly kernelShare: number | undefined;
  /** p95 of gaps between tokens while a prompt waits ÷ p95 of the other gaps; undefined with few gaps. */
  readonly interference: number | undefined;
  /** Utilisation of the busiest process that sends requests. */
  readonly clientUtilization: number;
  readonly isVoid: boolean;
  /** False: the server, such as an API, reports no figures of its queue and memory. */
  readonly isServerKnown: boolean;
}

interface Surroundings {
  readonly configuration: Configuration;
  readonly workload: Workload;
  readonly numClients: number | undefined;
  readonly cores: number;
  readonly engine: TunedEngine;
}

/** @param runs of one server under one load, at least one */
export function evidenceOf(
  runs: readonly BenchRun[],
  { configuration, workload, numClients, cores, engine }: Surroundings,
): Evidence {
  const middle = (read: (run: BenchRun) => number | undefined): number | undefined => {
    const values = runs.flatMap((run) => read(run) ?? []);
    return values.length === 0 ? undefined : median(values);
  };
  const ttftMs = middle(({ metrics }) => metrics.ttftMs?.mean) ?? 0;
  const p95 = (read: (run: BenchRun) => BenchRun["metrics"]["itlMs"]): number | undefined =>
    middle((run) => read(run)?.percentiles.p95);
  const [beside, undisturbed] = [
    p95(({ metrics }) => metrics.itlBesidePromptsMs),
    p95(({ metrics }) => metrics.itlUndisturbedMs),
  ];
  const instances = engine.instances(configuration);
  const threads = numberOf(configuration, "threads");
  return {
    numClients,
    seats: instances * (numberOf(configuration, "max-num-seqs") ?? engine.seats),
    threads: threads === undefined ? cores : instances * threads,
    cores,
    cpuCores: middle(({ process }) => process?.cpuCores),
    ttftMs,
    tpotMs: middle(({ metrics }) => metrics.tpotMs?.mean) ?? 0,
    queueShare: ttftMs === 0 ? 0 : (middle(({ server }) => server?.queueMs) ?? 0) / ttftMs,
    maxRunning: middle(({ server }) => server?.maxRunning),
    maxKvUsage: middle(({ server }) => server?.maxKvUsage),
    preemptionsPerRequest:
      middle(({ server, metrics }) => (server?.preemptions ?? 0) / Math.max(1, metrics.numRequests)) ?? 0,
    repeatedShare: repeatedShareOf(workload, runs[0]?.metrics.numRequests ?? 1),
    movedShare: movedShareOf(workload),
    cacheHitShare: middle(({ server }) => server?.cacheHitShare) ?? middle(cachedShareOf),
    acceptance: middle(({ server }) => server?.acceptance),
    rejectedPerToken: middle(({ server, metrics }) => (server?.rejected ?? 0) / Math.max(1, metrics.outputTokens)) ?? 0,
    prefillShare: middle(({ server }) => server?.prefillShare),
    kernelShare: middle(({ server }) => server?.kernelShare),
    interference: beside === undefined || undisturbed === undefined ? undefined : beside / undisturbed,
    clientUtilization: middle(({ client }) => client.utilization) ?? 0,
    isVoid: runs.some(({ voidReasons }) => voidReasons.length > 0),
    isServerKnown: runs.some(
      ({ server }) => (server?.queueMs ?? server?.maxRunning ?? server?.maxKvUsage) !== undefined,
    ),
  };
}

/** From the answers' usage; a server that does not count cached tokens also reports none. */
const cachedShareOf = ({ metrics: { cachedTokens, promptTokens } }: BenchRun): number | undefined =>
  cachedTokens > 0 ? cachedTokens / promptTokens : undefined;

const meanOf = (length: number | { readonly min: number; readonly max: number }): number =>
  typeof length === "number" ? length : (length.min + length.max) / 2;

/** @param numRequests of one run */
function repeatedShareOf(workload: Workload, numRequests: number): number {
  switch (workload.kind) {
    case "random":
      return (workload.sharedTokens / meanOf(workload.promptTokens)) * (1 - 1 / Math.max(1, numRequests));
    case "conversation": {
      const { systemTokens, turnTokens, outputTokens } = workload;
      const numTurns = turnsOf(workload);
      const history = (numTurns - 1) / 2;
      const whole = systemTokens + turnTokens + history * (turnTokens + outputTokens);
      return 1 - turnTokens / whole;
    }
    case "documents": {
      const share = workload.documentTokens / (workload.documentTokens + workload.outputTokens);
      return share * Math.max(0, 1 - workload.numDocuments / Math.max(1, numRequests));
    }
    case "entries":
      return sharedPrefixShare(textsOf(workload.entries));
    case "code-edit":
    case "texts":
      return 0;
  }
}

const textsOf = (entries: readonly Entry[]): readonly string[] =>
  entries.flatMap(({ prompt, messages }) => {
    if (messages !== undefined) return messages.map(({ role, content }) => `${role}\n${content}`).join("\n");
    return typeof prompt === "string" ? prompt : [];
  });

/** Sentences and lines that an earlier text contains, without the shared beginnings. */
function movedShareOf(workload: Workload): number {
  if (workload.kind !== "entries") return 0;
  const texts = textsOf(workload.entries);
  const seen = new Set<string>();
  let [numSeen, numCharacters] = [0, 0];
  for (const text of texts) {
    const pieces = text.split(/(?<=[\n.!?])\s*/);
    for (const piece of pieces) {
      numCharacters += piece.length;
      if (seen.has(piece)) numSeen += piece.length;
    }
    for (const piece of pieces) seen.add(piece);
  }
  return Math.max(0, numSeen / Math.max(1, numCharacters) - sharedPrefixShare(texts));
}

/**
 * The share of all characters that lie in a prefix of another text: in sorted order, neighbours have the longest common
 * prefixes.
 */
function sharedPrefixShare(texts: readonly string[]): number {
  const sorted = [...texts].sort();
  let numShared = 0;
  for (const [index, text] of sorted.entries()) {
    const before = sorted[index - 1];
    if (before === undefined) continue;
    let length = 0;
    while (length < text.length && text[length] === before[length]) length++;
    numShared += length;
  }
  const numCharacters = texts.reduce((sum, text) => sum + text.length, 0);
  return numCharacters === 0 ? 0 : numShared / numCharacters;
}
