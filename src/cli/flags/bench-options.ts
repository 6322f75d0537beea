/** Options of the commands that measure servers, and the plan for these options. */

import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import type { BenchReport, Slo } from "../../bench/results/schema.js";
import type { Planned } from "../../bench/run/plan.js";
import type { NamedWorkload } from "../../bench/workload/scenarios.js";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { parseSlo } from "../../core/slo.js";
import { integerIn, listOf, numberIn, oneOf } from "./option-values.js";

const MAX_DEFAULT_WORKERS = 8;
const MAX_COUNT = 1 << 24;
const ARRIVALS = ["constant", "poisson", "gamma"] as const;

export function workersOption(): Option {
  return new Option("--workers <n>", "processes that send requests")
    .argParser(integerIn("--workers", 1, 256))
    .default(Math.min(MAX_DEFAULT_WORKERS, Math.max(1, availableParallelism() >> 1)), "half the cores");
}

export function pollOption(): Option {
  return new Option(
    "--poll",
    "keep the load generator's processes awake: exact to microseconds if each has a core of its own",
  );
}

/** Options of the commands that end with a report. */
export interface OutputFlags {
  readonly workers: number;
  readonly poll?: boolean;
  readonly json?: boolean;
  readonly out?: string;
  readonly html?: string;
  readonly svg?: string;
  readonly md?: string;
  readonly resume?: boolean;
}

export interface LoadFlags extends OutputFlags, TrafficFlags {}

export interface TrafficFlags {
  readonly scenario: string;
  readonly shape?: readonly NamedWorkload[];
  readonly prompts?: string;
  readonly replay?: boolean;
  readonly maxTokens: number;
  readonly concurrency?: readonly number[] | "sweep";
  readonly rate?: readonly number[];
  readonly arrivals: (typeof ARRIVALS)[number];
  readonly burstiness?: number;
  readonly requests?: number;
  readonly duration?: number;
  readonly rounds?: number;
  readonly scale: number;
  readonly seed: number;
  readonly slo?: Slo;
  readonly pricePerHour?: number;
  readonly timeout: number;
  readonly apiKey?: string;
}

const WHAT = "Workload:";
const HOW = "Load:";
const TOLD = "Report:";

const grouped = (group: string, flags: string, about: string): Option => new Option(flags, about).helpGroup(group);

export function addOutputOptions(command: Command): Command {
  return addTableOptions(command)
    .addOption(grouped(TOLD, "--html <file>", "HTML page with charts"))
    .addOption(grouped(TOLD, "--svg <file>", "SVG chart of throughput against load"));
}

/** Options of a command that measures several servers of one kind. */
export function addPeerOptions(command: Command): Command {
  return command
    .option(
      "--peer <url>",
      "[name=]URL of another running server, to measure in alternation; repeatable",
      (text: string, before: readonly string[]) => [...before, text],
      [] as readonly string[],
    )
    .option(
      "--threads <n>",
      "threads of each started server (default: all physical cores but one, for the load generator)",
      integerIn("--threads", 1, 1024),
    );
}

/** Options of a command whose report has only tables. */
export function addTableOptions(command: Command): Command {
  return command
    .addOption(grouped(TOLD, "--json", "print the results as one JSON object instead of tables"))
    .addOption(grouped(TOLD, "--out <file>", "results file, in JSON, saved after every run"))
    .addOption(grouped(TOLD, "--md <file>", "Markdown report"))
    .addOption(grouped(TOLD, "--resume", "continue the run saved in the --out file"))
    .addOption(workersOption())
    .addOption(pollOption());
}

export const addLoadOptions = (command: Command): Command => addOutputOptions(addTrafficOptions(command));

/** Options for the requests to send. */
export function addTrafficOptions(command: Command): Command {
  const add = (group: string, flags: string, about: string, parse: (text: string) => unknown, otherwise?: unknown) => {
    const made = grouped(group, flags, about).argParser(parse);
    command.addOption(otherwise === undefined ? made : made.default(otherwise));
  };
  const flagOf = (flags: string) => flags.split(" ")[0]!;
  const number = (group: string, flags: string, about: string, min: number, max: number, otherwise?: number) =>
    add(group, flags, about, numberIn(flagOf(flags), min, max), otherwise);
  const count = (group: string, flags: string, about: string, otherwise?: number) =>
    add(group, flags, about, integerIn(flagOf(flags), 1, MAX_COUNT), otherwise);
  add(WHAT, "--scenario <name>", "quick, standard, chat, rag, agent, code-edit", String, "quick");
  add(
    WHAT,
    "--shape <in/out,…>",
    "random prompts and answers of these lengths in tokens, instead of a scenario, such as 512/128",
    shapes,
  );
  add(
    WHAT,
    "--prompts <file>",
    "your own prompts, instead of a scenario: JSON lines with prompt or messages, the lengths of a trace, or recorded requests",
    String,
  );
  count(WHAT, "--max-tokens <n>", "longest answer for lines of --prompts without a length", 128);
  number(WHAT, "--scale <factor>", "factor on all lengths of the scenario", 0.001, 1000, 1);
  add(WHAT, "--seed <n>", "seed of the prompts", integerIn("--seed", 0, 2 ** 31), 0);
  command.addOption(grouped(WHAT, "--api-key <key>", "API key for the servers").env("OPENAI_API_KEY"));
  add(HOW, "--concurrency <n,…>", "clients at once; sweep: doubles until throughput stops growing", (text) =>
    text === "sweep" ? text : concurrencies(text),
  );
  add(HOW, "--rate <n,…>", "requests per second, instead of a number of clients", rates);
  add(HOW, "--arrivals <how>", ARRIVALS.join(", "), oneOf("--arrivals", ARRIVALS), "poisson");
  number(HOW, "--burstiness <shape>", "shape of gamma arrivals; bursts below 1", 0.01, 1000);
  command.addOption(grouped(HOW, "--replay", "send --prompts at the timestamps of their lines"));
  count(HOW, "--requests <n>", "requests of each run, instead of the scenario's limits");
  number(
    HOW,
    "--duration <seconds>",
    "time after which a run sends no new requests, instead of --requests or with it",
    0.1,
    1e6,
  );
  count(HOW, "--rounds <n>", "runs of each server in each cell");
  number(HOW, "--timeout <seconds>", "longest wait between two pieces of an answer, in seconds", 0.1, 1e5, 300);
  add(
    TOLD,
    "--slo <limits>",
    "objective: chat, rag, code, or limits such as ttft=200,tpot=50 in milliseconds",
    parseSlo,
  );
  number(TOLD, "--price-per-hour <price>", "price of the serving machine, for the cost per million tokens", 0, 1e6);
  return command;
}

const rates = (text: string) => listOf("--rate")(text, undefined).map(numberIn("--rate", 0.001, 1e6));

/** @example shapePairs("512/128") // [[512, 128]] */
export function shapePairs(text: string): (readonly [promptTokens: number, outputTokens: number])[] {
  return listOf("--shape")(text, undefined).map((item) => {
    const match = /^(\d+)\/(\d+)$/.exec(item);
    const [promptTokens, outputTokens] = [Number(match?.[1]), Number(match?.[2])];
    if (!(promptTokens > 0 && outputTokens > 0)) throw optionError("--shape", "lengths such as 512/128", item);
    return [promptTokens, outputTokens];
  });
}

function shapes(text: string): NamedWorkload[] {
  return shapePairs(text).map(([promptTokens, outputTokens]) => ({
    name: `${promptTokens}/${outputTokens}`,
    workload: { kind: "random", promptTokens, sharedTokens: 0, outputTokens },
  }));
}

export function concurrencies(text: string): readonly number[] {
  return listOf("--concurrency")(text, undefined).map(integerIn("--concurrency", 1, 65_536));
}

/** Throws invalid_option if one of these options was given. @param where the expectation in its place */
export function refuseGiven(command: Command, names: readonly string[], where: string, hint: string): void {
  const given = command.options.find(
    (option) =>
      names.includes(option.attributeName()) && command.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (given === undefined) return;
  throw new MillraceError("invalid_option", `expected ${where}, got ${given.long}`, { hint });
}

/** A trace fixes the times and the number of requests; prompts fix the lengths. */
const CONTRADICTIONS = [
  ["concurrency", "rate"],
  ["replay", "concurrency"],
  ["replay", "rate"],
  ["replay", "requests"],
  ["prompts", "shape"],
] as const;

/** Throws invalid_option and file_unreadable. */
export async function planFromFlags(flags: TrafficFlags, command: Command): Promise<Planned> {
  const [{ planFor }, { readEntries }] = await Promise.all([
    import("../../bench/run/plan.js"),
    import("../../bench/workload/entries.js"),
  ]);
  if ((flags.arrivals === "gamma") !== (flags.burstiness !== undefined)) {
    throw new MillraceError("invalid_option", "expected --burstiness with --arrivals gamma, and only with it");
  }
  for (const [first, second] of CONTRADICTIONS) {
    if (flags[first] === undefined || flags[second] === undefined) continue;
    throw new MillraceError("invalid_option", `expected either --${first} or --${second}, got both`);
  }
  if (flags.prompts !== undefined) {
    const hint = "prompts are sent unchanged: leave this option out, or --prompts";
    refuseGiven(command, ["scale", "scenario"], "no scenario with --prompts", hint);
  }
  if (flags.rate === undefined) {
    refuseGiven(command, ["arrivals"], "--rate with --arrivals", "only --rate has arrival times");
  }
  const burstiness = { constant: undefined, poisson: 1, gamma: flags.burstiness }[flags.arrivals];
  return planFor({
    scenario: flags.scenario,
    workloads: flags.shape,
    isReplay: flags.replay === true,
    entries: flags.prompts === undefined ? undefined : readEntries(flags.prompts, flags.maxTokens),
    concurrency: flags.concurrency,
    ratesPerS: flags.rate,
    burstiness,
    numRequests: flags.requests,
    durationS: flags.duration,
    rounds: flags.rounds,
    scale: flags.scale,
    seed: flags.seed,
    slo: flags.slo,
    pricePerHour: flags.pricePerHour,
  });
}

/** The report that --resume continues; undefined if none exists yet. */
export async function resumedReport({ resume, out }: OutputFlags): Promise<BenchReport | undefined> {
  if (resume !== true) return undefined;
  if (out === undefined) {
    throw new MillraceError("invalid_option", "expected --out with --resume, got none", {
      hint: "give the file of the interrupted run",
    });
  }
  const { readReport } = await import("../../bench/results/schema.js");
  return existsSync(out) ? readReport(out) : undefined;
}
