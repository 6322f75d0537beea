/** Options of the commands that measure servers, and what becomes of them: a plan, and files for its report. */

import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import type { BenchReport, Slo } from "../../bench/results/schema.js";
import type { Planned } from "../../bench/run/plan.js";
import type { NamedWorkload } from "../../bench/workload/scenarios.js";
import { parseSlo } from "../../bench/workload/slo.js";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
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
    "keep the load generator's processes awake: exact to microseconds where each has a core to spare",
  );
}

/** Of the commands that end with a report. */
export interface OutputFlags {
  readonly workers: number;
  readonly poll?: boolean;
  readonly json?: string;
  readonly html?: string;
  readonly svg?: string;
  readonly md?: string;
  readonly resume?: boolean;
}

export interface LoadFlags extends OutputFlags {
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

const WHAT = "What is asked:";
const HOW = "How much of it:";
const TOLD = "What is told of it:";

const grouped = (group: string, flags: string, about: string): Option => new Option(flags, about).helpGroup(group);

export function addOutputOptions(command: Command): Command {
  return command
    .addOption(grouped(TOLD, "--json <file>", "everything measured, saved after every run"))
    .addOption(grouped(TOLD, "--html <file>", "one page with pictures"))
    .addOption(grouped(TOLD, "--svg <file>", "throughput against the load as one picture"))
    .addOption(grouped(TOLD, "--md <file>", "Markdown"))
    .addOption(grouped(TOLD, "--resume", "go on with what the --json file has already"))
    .addOption(workersOption())
    .addOption(pollOption());
}

export function addLoadOptions(command: Command): Command {
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
  add(WHAT, "--shape <in/out,…>", "random prompts and answers of these lengths instead, such as 512/128", shapes);
  add(
    WHAT,
    "--prompts <file>",
    "your own prompts instead: JSON lines with prompt or messages, or a trace's lengths",
    String,
  );
  count(WHAT, "--max-tokens <n>", "longest answer to prompts of --prompts that name no length", 128);
  number(WHAT, "--scale <factor>", "multiplies all lengths of the scenario", 0.001, 1000, 1);
  add(WHAT, "--seed <n>", "seed of the prompts", integerIn("--seed", 0, 2 ** 31), 0);
  command.addOption(grouped(WHAT, "--api-key <key>", "sent to servers").env("OPENAI_API_KEY"));
  add(HOW, "--concurrency <n,…>", "clients at once; sweep: doubled until throughput stops growing", (text) =>
    text === "sweep" ? text : concurrencies(text),
  );
  add(HOW, "--rate <n,…>", "requests a second, instead of a number of clients", rates);
  add(HOW, "--arrivals <how>", ARRIVALS.join(", "), oneOf("--arrivals", ARRIVALS), "poisson");
  number(HOW, "--burstiness <shape>", "shape of gamma arrivals; below 1 they come in bursts", 0.01, 1000);
  command.addOption(grouped(HOW, "--replay", "send --prompts at their own timestamps"));
  count(HOW, "--requests <n>", "requests of each run, instead of the scenario's own bounds");
  number(
    HOW,
    "--duration <seconds>",
    "time after which a run sends no new requests, instead of or beside --requests",
    0.1,
    1e6,
  );
  count(HOW, "--rounds <n>", "runs of each cell");
  number(HOW, "--timeout <seconds>", "time allowed between two pieces of an answer", 0.1, 1e5, 300);
  add(TOLD, "--slo <limits>", "chat, rag, code, or such as ttft=200,tpot=50 in milliseconds", parseSlo);
  number(TOLD, "--price-per-hour <price>", "price of the serving machine, for the cost of a million tokens", 0, 1e6);
  return addOutputOptions(command);
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

/** Throws invalid_option for one of these options that stands on the command line. @param where what it does not go with */
export function refuseGiven(command: Command, names: readonly string[], where: string, hint: string): void {
  const given = command.options.find(
    (option) =>
      names.includes(option.attributeName()) && command.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (given === undefined) return;
  throw new MillraceError("invalid_option", `expected ${where}, got ${given.long}`, { hint });
}

/** A trace has its own times and as many requests as lines; prompts have their own lengths. */
const CONTRADICTIONS = [
  ["concurrency", "rate"],
  ["replay", "concurrency"],
  ["replay", "rate"],
  ["replay", "requests"],
  ["prompts", "shape"],
] as const;

/** Throws invalid_option and file_unreadable. */
export async function planFromFlags(flags: LoadFlags, command: Command): Promise<Planned> {
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
    const hint = "prompts are sent as they are: leave it out, or leave out --prompts";
    refuseGiven(command, ["scale", "scenario"], "nothing about a scenario beside --prompts", hint);
  }
  if (flags.rate === undefined) {
    refuseGiven(command, ["arrivals"], "--rate beside --arrivals", "clients that wait for answers have no times");
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

/** What --resume goes on with; undefined when there is nothing yet. */
export async function resumedReport({ resume, json }: OutputFlags): Promise<BenchReport | undefined> {
  if (resume !== true) return undefined;
  if (json === undefined) {
    throw new MillraceError("invalid_option", "expected --json beside --resume, got none", {
      hint: "name the file of the run that was interrupted",
    });
  }
  const { readReport } = await import("../../bench/results/schema.js");
  return existsSync(json) ? readReport(json) : undefined;
}
