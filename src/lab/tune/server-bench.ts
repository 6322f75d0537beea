/** Measures and judges configurations of a server on this machine; each run starts its server anew. */

import { type Cost, costByList, costOf, type ListPrice } from "../../bench/measure/cost.js";
import { throughputOf } from "../../bench/measure/run-metrics.js";
import type { BenchRun } from "../../bench/results/schema.js";
import { runBench } from "../../bench/run/bench.js";
import { type Launch, launchServer } from "../../bench/run/launch.js";
import type { Planned } from "../../bench/run/plan.js";
import type { ServerUnderTest } from "../../bench/run/target.js";
import type { Cell } from "../../bench/workload/scenarios.js";
import { MillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import { type Comparison, compare } from "../../quality/compare.js";
import type { TaskResult } from "../../quality/run-task.js";
import type { EvalTask } from "../../quality/tasks.js";
import { type AnswerSettings, openServerTarget } from "../eval-target.js";
import { evaluate } from "../evaluate.js";
import type { Objective } from "./bottleneck.js";
import { type Configuration, flagWords } from "./configuration.js";
import { evidenceOf } from "./evidence.js";
import type { Bench, Measured } from "./loop.js";
import { type EngineChoice, TUNED_ENGINES, type TunedEngine, tunedServer } from "./tuned-engines.js";

export interface ServerBenchSettings {
  readonly engine: EngineChoice;
  readonly modelPath: string;
  /** The first configuration; its answers are the reference. */
  readonly start: Configuration;
  /** The plan, with one cell. */
  readonly planned: Planned;
  readonly objective: Objective;
  /** Threads of a server whose configuration does not set them. */
  readonly numThreads: number;
  readonly timeoutMs: number;
  readonly numWorkers: number;
  readonly isPolling: boolean;
  /** Empty: answers are not judged. */
  readonly tasks: readonly EvalTask[];
  readonly maxDrop: number;
  readonly evaluation: AnswerSettings;
  /** A running server, measured unchanged. The user states its configuration. */
  readonly attached?: AttachedServer | undefined;
}

interface AttachedServer extends Pick<ServerUnderTest, "model" | "apiKey"> {
  readonly url: string;
  /** Price of the server's tokens, in dollars. */
  readonly listPrice?: ListPrice | undefined;
}

/** Key of the weights' path in a configuration; it is not a flag of the server. */
const MODEL = "model";

export class ServerBench implements Bench {
  /** Each measurement gets its own prompts. */
  #numMeasured = 0;
  #reference: readonly TaskResult[] | undefined;

  constructor(
    private readonly settings: ServerBenchSettings,
    private readonly startStage: StartStage,
    private readonly signal: AbortSignal,
  ) {}

  /**
   * If the machine disturbs a run, its round counts for no configuration and is repeated, a few times at most. Throws
   * peer_failed if the only configuration does not start or answer.
   */
  async measure(configurations: readonly Configuration[], numRounds: number): Promise<readonly Measured[]> {
    const all: BenchRun[][] = configurations.map(() => []);
    let numMissing = numRounds;
    for (let tries = 0; tries < MAX_TRIES && numMissing > 0 && !this.signal.aborted; tries++) {
      const firstRound = tries * numRounds;
      const more = await this.#rounds(configurations, numMissing);
      for (const [index, runs] of more.entries()) {
        all[index]!.push(...runs.map((run) => ({ ...run, round: firstRound + run.round })));
      }
      if (all.some((runs) => failureOf(runs) !== undefined || runs.length === 0)) break;
      numMissing = numRounds - countedRounds(all).length;
    }
    return configurations.map((configuration, index) => this.#measured(configuration, all[index]!, countedRounds(all)));
  }

  async #rounds(configurations: readonly Configuration[], numRounds: number): Promise<readonly BenchRun[][]> {
    const { planned, numWorkers, isPolling, numThreads } = this.settings;
    const plan = { ...planned.plan, rounds: numRounds, seed: planned.plan.seed + this.#numMeasured++ };
    const targets = configurations.map((configuration, index) => this.#target(configuration, index));
    const stage = this.startStage(configurations.length === 1 ? "baseline" : "in turns");
    const job = { targets, planned: { cells: planned.cells, plan }, numWorkers, isPolling, numThreads };
    const report = await runBench(
      { ...job, restarts: "run", signal: this.signal },
      {
        onOpening: () => {},
        onTargets: () => {},
        onRunStart: () => {},
        onProgress: ({ numBefore, numRuns }, { numDone }) =>
          stage.update(`run ${numBefore + 1} of ${numRuns}: ${numDone} requests`),
        onRun: () => {},
        onReport: () => {},
      },
    );
    stage.done(`${numRounds} rounds of ${planned.cells[0]!.name}`);
    return targets.map(({ name }) => (report?.runs ?? []).filter(({ target }) => target === name));
  }

  async judge(configuration: Configuration): Promise<Comparison | undefined> {
    const { tasks, start, maxDrop } = this.settings;
    if (tasks.length === 0) return undefined;
    this.#reference ??= await this.#answers(start);
    return compare(this.#reference, await this.#answers(configuration), maxDrop);
  }

  #launch(configuration: Configuration, name: string): Launch {
    const { engine, modelPath, numThreads } = this.settings;
    const { [MODEL]: path = modelPath, ...flags } = configuration;
    return tunedServer(engine, { name, path, numThreads }, flags);
  }

  #target(configuration: Configuration, index: number): ServerUnderTest {
    const name = NAMES[index]!;
    const { attached, timeoutMs } = this.settings;
    if (attached !== undefined) {
      const { url, model, apiKey } = attached;
      return { name, url, model, apiKey, timeoutMs };
    }
    return {
      name,
      launch: this.#launch(configuration, name),
      timeoutMs,
      // A changed server that does not start is a result.
      ...(index === 0 ? {} : { factsOf: NAMES[0] }),
    };
  }

  /** @param rounds the rounds that count for every configuration */
  #measured(configuration: Configuration, runs: readonly BenchRun[], rounds: readonly number[]): Measured {
    const { planned, objective, numThreads, engine, attached } = this.settings;
    const counted = runs.filter(({ round }) => rounds.includes(round)).sort((a, b) => a.round - b.round);
    const problem = problemOf(runs, counted);
    if (problem !== undefined) {
      return { values: [], attainment: undefined, peakMemoryBytes: undefined, evidence: undefined, problem };
    }
    const [cell] = planned.cells as [Cell];
    const { pricePerHour } = planned.plan;
    const { listPrice } = attached ?? {};
    const terms = { cores: numThreads, objective, engine: TUNED_ENGINES[engine.engine], pricePerHour, listPrice };
    return measuredOf(counted, configuration, cell, terms);
  }

  async #answers(configuration: Configuration): Promise<readonly TaskResult[]> {
    const { tasks, evaluation } = this.settings;
    const server = await launchServer(this.#launch(configuration, "millrace"), undefined, this.signal);
    try {
      const target = await openServerTarget(server, evaluation, this.signal);
      try {
        return await evaluate(target, tasks, this.startStage);
      } finally {
        await target.close();
      }
    } finally {
      await server.stop();
    }
  }
}

/** Names of the current configuration and of the changed one. */
const NAMES = ["present", "changed"] as const;

/** Tries of a measurement, because the machine may disturb rounds. */
const MAX_TRIES = 3;

const counts = (runs: readonly BenchRun[], round: number): boolean =>
  runs.some((run) => run.round === round && run.voidReasons.length === 0);

/** A round counts for all configurations or for none. */
const countedRounds = (all: readonly (readonly BenchRun[])[]): readonly number[] =>
  all[0]!.map(({ round }) => round).filter((round) => all.every((runs) => counts(runs, round)));

const failureOf = (runs: readonly BenchRun[]): string | undefined =>
  runs.flatMap(({ metrics }) => metrics.failures)[0]?.example;

/** The reason why the configuration has no figures; undefined: it has some. */
function problemOf(runs: readonly BenchRun[], counted: readonly BenchRun[]): string | undefined {
  const failure = failureOf(runs);
  if (failure !== undefined) return `requests failed: ${failure}`;
  if (counted.length > 0) return undefined;
  return runs.flatMap(({ voidReasons }) => voidReasons)[0] ?? "no run of it and of its partner counts in one round";
}

interface Terms {
  /** Cores that the server may use. */
  readonly cores: number;
  readonly objective: Objective;
  readonly engine: TunedEngine;
  /** Price of the whole machine in dollars. The objective `cost` needs it. */
  readonly pricePerHour: number | undefined;
  /** Price of tokens, instead of the machine's. */
  readonly listPrice?: ListPrice | undefined;
}

/** The runs of one configuration, with one value per run. */
export function measuredOf(
  runs: readonly BenchRun[],
  configuration: Configuration,
  { workload, load }: Pick<Cell, "workload" | "load">,
  { cores, objective, engine, pricePerHour, listPrice }: Terms,
): Measured {
  const costs = runs.map((run) => {
    if (listPrice !== undefined) return costByList(run, listPrice);
    return pricePerHour === undefined ? undefined : costOf([run.metrics], pricePerHour);
  });
  const numClients = load.kind === "closed" ? load.concurrency : undefined;
  const shares = runs.flatMap(({ metrics }) => metrics.slo?.attainment ?? []);
  const peaks = runs.flatMap(({ process }) => process?.peakMemoryBytes ?? []);
  return {
    values: runs.map((run, index) => objectiveOf(run, objective, costs[index])),
    costs: costs.every((cost) => cost !== undefined) ? costs : undefined,
    attainment: shares.length === 0 ? undefined : shares.reduce((sum, share) => sum + share, 0) / shares.length,
    peakMemoryBytes: peaks.length === 0 ? undefined : Math.max(...peaks),
    evidence: evidenceOf(runs, { configuration, workload, numClients, cores, engine }),
  };
}

/** Larger is better: latencies and costs are inverted. */
function objectiveOf({ metrics }: BenchRun, objective: Objective, cost: Cost | undefined): number {
  const perS = (ms: number | undefined): number => 1000 / (ms ?? Number.POSITIVE_INFINITY);
  switch (objective) {
    case "throughput":
      return throughputOf(metrics);
    case "goodput":
      // Ratios need a positive number.
      return Math.max(metrics.slo?.goodRequestsPerS ?? 0, 1e-3);
    case "cost":
      return 1 / (cost?.perMillionOutput ?? Number.POSITIVE_INFINITY);
    case "ttft":
      return perS(metrics.ttftMs?.mean);
    case "tpot":
      return perS(metrics.tpotMs?.mean);
    case "e2e":
      return perS(metrics.e2eMs?.mean);
  }
}

/** Throws invalid_option for a plan of several loads, for goodput without limits, and for cost without a price. */
export function assertTunable({ cells, plan }: Planned, objective: Objective): void {
  if (cells.length > 1) {
    const names = cells.map(({ name }) => name).join("; ");
    throw new MillraceError("invalid_option", `expected one workload under one load, got ${cells.length}: ${names}`, {
      hint: "give one: --concurrency 8, or --rate 2",
    });
  }
  if (objective === "cost" && !((plan.pricePerHour ?? 0) > 0)) {
    const got = plan.pricePerHour ?? "none";
    throw new MillraceError("invalid_option", `expected a --price-per-hour above 0 with --objective cost, got ${got}`, {
      hint: "leave it out for the planner's price of this machine",
    });
  }
  if (objective !== "goodput" || plan.slo !== undefined) return;
  throw new MillraceError("invalid_option", "expected --slo with --objective goodput, got none", {
    hint: "give the limits of a good answer: --slo ttft=200,tpot=50",
  });
}

/**
 * The command that starts a server with this configuration. @param model as the user named it; undefined: the bundled
 * one
 */
export function serveWords(
  { engine, program }: EngineChoice,
  configuration: Configuration,
  model: string | undefined,
): string[] {
  const { [MODEL]: path = model, ...flags } = configuration;
  if (engine === "vllm")
    return [program ?? engine, "serve", ...(path === undefined ? [] : [path]), ...flagWords(flags)];
  return ["millrace", ...(path === undefined ? [] : ["--model", path]), ...flagWords(flags)];
}
