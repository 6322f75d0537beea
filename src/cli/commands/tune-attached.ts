/**
 * `millrace tune --url`: measures a running server, names its bottleneck, and lists the changes that a tuning would
 * try.
 */
import type { Command } from "commander";
import type { Cell } from "../../bench/workload/scenarios.js";
import { MillraceError } from "../../core/errors.js";
import { silentStages } from "../../core/stages.js";
import { listedRows, readPriceList, rowAt } from "../../gateway/prices/price-list.js";
import type { TieredPrice } from "../../gateway/usage/price.js";
import type { Objective } from "../../lab/tune/bottleneck.js";
import type { Edit } from "../../lab/tune/configuration.js";
import type { Diagnosis } from "../../lab/tune/loop.js";
import type { TunedEngineName } from "../../lab/tune/tuned-engines.js";
import type { DatedPrice } from "../../plan/data/prices.js";
import { planFromFlags, refuseGiven, type TrafficFlags } from "../flags/bench-options.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { words } from "./bench-run.js";

/** Flags about starting servers, about trials, and about their results. */
const OF_TRIALS = [
  "program",
  "weights",
  "chats",
  "count",
  "maxDrop",
  "minAttainment",
  "maxMemory",
  "maxTrials",
  "maxMinutes",
  "out",
  "resume",
  "again",
  "schedule",
  "maxDrift",
];

interface AttachedFlags extends TrafficFlags {
  readonly url: string;
  readonly model?: string;
  readonly engine: TunedEngineName;
  readonly serverArgs: string;
  readonly objective: Objective;
  readonly rounds: number;
  readonly threads?: number;
  readonly json?: boolean;
  readonly workers: number;
  readonly poll?: boolean;
}

export async function diagnoseAttached(flags: AttachedFlags, command: Command, signal: AbortSignal): Promise<void> {
  refuseGiven(command, OF_TRIALS, "no flag of trials with --url", "a server that runs elsewhere is not started again");
  const [{ diagnose }, lab, { TUNED_ENGINES }, { parseFlags }, { givenPrice }] = await Promise.all([
    import("../../lab/tune/loop.js"),
    import("../../lab/tune/server-bench.js"),
    import("../../lab/tune/tuned-engines.js"),
    import("../../lab/tune/configuration.js"),
    import("../plan/machine-price.js"),
  ]);
  const { url, model, apiKey, rounds, objective } = flags;
  const planned = await planFromFlags(flags, command);
  const listPrice = listPriceFor(flags);
  if (listPrice === undefined) lab.assertTunable(planned, objective);
  else lab.assertTunable(planned, "throughput");
  const start = parseFlags(words(flags.serverArgs));
  // Refuses a wrong number of instances before it sends any load.
  TUNED_ENGINES[flags.engine].instances(start);
  const startStage = flags.json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const bench = new lab.ServerBench(
    {
      engine: { engine: flags.engine },
      modelPath: "",
      start,
      planned,
      objective,
      // A machine with an unknown number of cores.
      numThreads: flags.threads ?? 1,
      timeoutMs: 1000 * flags.timeout,
      numWorkers: flags.workers,
      isPolling: flags.poll === true,
      tasks: [],
      maxDrop: 0,
      evaluation: { temperature: 0, maxTokens: 1, seed: 0, concurrency: 1 },
      attached: { url, model, apiKey, listPrice },
    },
    startStage,
    signal,
  );
  const alternatives = { engine: TUNED_ENGINES[flags.engine], weights: [], freeBytes: undefined };
  const diagnosis = await diagnose({ start, objective, alternatives, numRounds: rounds }, bench);
  const { pricePerHour } = flags;
  const ofMachine = pricePerHour === undefined ? undefined : givenPrice(pricePerHour, "--price-per-hour");
  const price = listPrice === undefined ? ofMachine : { source: listPrice.version };
  const [{ name: load }] = planned.cells as [Cell];
  if (flags.json) process.stdout.write(`${jsonText({ url, load, objective, price, ...diagnosis })}\n`);
  else process.stdout.write(`${await textOf(diagnosis, url, price)}\n`);
}

/** A paid API's price, unless the user gives a machine's. Throws invalid_option if money has no price. */
function listPriceFor({ model, objective, pricePerHour }: AttachedFlags): TieredPrice | undefined {
  if (objective !== "cost" || (pricePerHour ?? 0) > 0) return undefined;
  const isListed = pricePerHour === undefined && model !== undefined;
  const row = isListed ? rowAt(listedRows(readPriceList(), model), Date.now()) : undefined;
  if (row !== undefined) return row.price;
  const ofModel = model === undefined ? "neither" : `--model ${model}, which has no list price`;
  const got = pricePerHour === undefined ? ofModel : `--price-per-hour ${pricePerHour}`;
  throw new MillraceError(
    "invalid_option",
    `expected --price-per-hour above 0, or --model with a list price, with --objective cost and --url, got ${got}`,
    {
      hint: "give the dollars of the server's machine as --price-per-hour, or the --model of an API in the price list",
    },
  );
}

/** The price of the machine's hour; without dollars: this version's list price. */
type AttachedPrice = Pick<DatedPrice, "source"> & Partial<DatedPrice>;

const priceText = ({ usd, source }: AttachedPrice): string => (usd === undefined ? source : `$${usd} an hour`);

const flagsText = (edit: Edit): string =>
  Object.entries(edit)
    .map(([flag, value]) => (value === undefined ? `without --${flag}` : `--${flag} ${value}`.trim()))
    .join(" ");

async function textOf(
  { findings, baseline, proposals }: Diagnosis,
  url: string,
  price: AttachedPrice | undefined,
): Promise<string> {
  const { moneyRows } = await import("../../lab/tune/report.js");
  const [bottleneck, ...others] = findings;
  const changes = proposals.map(({ name, bottleneck: of, predicted, isLossy, edit }) => [
    name,
    of,
    `${predicted.toFixed(2)} ×`,
    isLossy ? "may change" : "stay",
    flagsText(edit),
  ]);
  const money = baseline.costs && price !== undefined ? moneyRows([baseline.costs]) : [];
  const tables = [
    ...(changes.length === 0 ? [] : [[["change", "because of", "predicted", "answers", "flags"], ...changes]]),
    ...(price === undefined || money.length === 0
      ? []
      : [[[`cost at ${priceText(price)}`, "now (95 % interval)"], ...money]]),
  ];
  return [
    ...tables.flatMap((rows) => [formatTable(rows), ""]),
    `bottleneck: ${bottleneck!.bottleneck} (${bottleneck!.because})`,
    ...others.map((finding) => `then: ${finding.bottleneck} (${finding.because})`),
    `${url} was measured and left as it is: nothing was tried. To try a change, start a second server with it, and`,
    `compare both (millrace bench run --url ${url} --peer URL), or send it a share of the traffic (millrace canary).`,
  ].join("\n");
}
