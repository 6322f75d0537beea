/** `millrace tune`: finds this server's best configuration for the user's load, and shows the reasons. */
import { writeFileSync } from "node:fs";
import { freemem, release } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { machineInfo, versions } from "../../bench/results/machine.js";
import type { Cell } from "../../bench/workload/scenarios.js";
import { optionError } from "../../core/option-error.js";
import { formatBytes } from "../../core/quantities.js";
import { shellWord } from "../../core/shell-word.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import { contentHashOf } from "../../formats/content-hash.js";
import { type LocatedModel, locateModel } from "../../formats/locate-model.js";
import type { AnswerSettings } from "../../lab/eval-target.js";
import type { Objective } from "../../lab/tune/bottleneck.js";
import type { Facts } from "../../lab/tune/drift.js";
import type { Journal } from "../../lab/tune/journal.js";
import type { TuneEvents, TuneSettings, Tuning } from "../../lab/tune/loop.js";
import type { Alternatives } from "../../lab/tune/proposals.js";
import type { trialRow } from "../../lab/tune/report.js";
import { type Interval, parseInterval } from "../../lab/tune/schedule.js";
import type { TunedEngineName } from "../../lab/tune/tuned-engines.js";
import type { DatedPrice } from "../../plan/data/prices.js";
import {
  addTrafficOptions,
  planFromFlags,
  pollOption,
  type TrafficFlags,
  workersOption,
} from "../flags/bench-options.js";
import { modelOption } from "../flags/model-option.js";
import { byteSize, integerIn, listOf, numberIn, oneOf } from "../flags/option-values.js";
import { questionsFrom } from "../flags/own-questions.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";
import { inTuningFolder } from "../process/tuning-folder.js";
import { words } from "./bench-run.js";
import { type PreparedTuning, tuneAgain, tuneOnSchedule } from "./tune-again.js";
import { tuneSpeculationCommand } from "./tune-speculation.js";

const ENGINES = ["millrace", "vllm"] as const satisfies readonly TunedEngineName[];
const OBJECTIVES = ["throughput", "goodput", "cost", "ttft", "tpot", "e2e"] as const satisfies readonly Objective[];
const USUAL_CLIENTS = [8];
const USUAL_ROUNDS = 3;
const EVALUATION: AnswerSettings = { temperature: 0, maxTokens: 512, seed: 0, concurrency: 16 };
const MS_PER_MINUTE = 60_000;

interface TuneFlags extends TrafficFlags {
  readonly model?: string;
  readonly url?: string;
  readonly engine: TunedEngineName;
  readonly program?: string;
  readonly serverArgs: string;
  readonly objective: (typeof OBJECTIVES)[number];
  readonly weights?: readonly string[];
  readonly chats?: string;
  readonly count: number;
  readonly maxDrop: number;
  readonly minAttainment: number;
  readonly maxMemory?: number;
  readonly maxTrials: number;
  readonly maxMinutes: number;
  readonly threads?: number;
  readonly out: string;
  readonly resume?: boolean;
  readonly again?: boolean;
  readonly schedule?: Interval;
  readonly maxDrift: number;
  readonly json?: boolean;
  readonly workers: number;
  readonly poll?: boolean;
}

export function tuneCommand(): Command {
  const command = new Command("tune")
    .enablePositionalOptions()
    .addCommand(tuneSpeculationCommand())
    .description(
      "Find the best configuration for your load: measure, name the bottleneck, try a change beside the present server, and keep it only if it is faster and as good.",
    )
    .addOption(modelOption())
    .option("--engine <name>", `engine to tune: ${ENGINES.join(", ")}`, oneOf("--engine", ENGINES), "millrace")
    .option("--program <path>", "the engine's own program, such as /opt/vllm/bin/vllm (default: the one in PATH)")
    .option(
      "--url <url>",
      "a server that runs already, whose model --model names: it is measured and left as it is, and what would be tried is told",
    )
    .option("--server-args <flags>", "the first configuration, as flags of the engine's server", "")
    .option(
      "--objective <name>",
      `to improve: ${OBJECTIVES.join(", ")}`,
      oneOf("--objective", OBJECTIVES),
      "throughput",
    )
    .option("--weights <files>", "other weights of the same model to try, separated by commas", listOf("--weights"))
    .option(
      "--chats <file>",
      "chats as of millrace eval, by which a change that alters answers is judged (default: such changes are rolled back)",
    )
    .option("--count <n>", "items of each task in --chats", integerIn("--count", 1, 1_000_000), 1000)
    .option(
      "--max-drop <points>",
      "largest drop of right answers, in points",
      numberIn("--max-drop", 0.1, 100, "points"),
      2,
    )
    .option(
      "--min-attainment <share>",
      "least share of requests within --slo, unless it was lower before",
      numberIn("--min-attainment", 0, 1),
      0.9,
    )
    .option("--max-memory <size>", "most memory of the server's process, such as 8GiB", byteSize("--max-memory"))
    .option("--max-trials <n>", "most changes to try", integerIn("--max-trials", 0, 1000), 12)
    .option("--max-minutes <n>", "no change is tried after this time", numberIn("--max-minutes", 0.1, 10_000), 60)
    .option(
      "--threads <n>",
      "threads of the server (default: all physical cores but one, for the load generator)",
      integerIn("--threads", 1, 1024),
    )
    .option("--out <folder>", "folder of the journal, the reports and the configuration", "tuning")
    .option("--resume", "go on with the journal in --out")
    .option(
      "--again",
      "keep this run in a dated folder in --out, and tell what drifted since the run before; exit code 3 if beyond --max-drift",
    )
    .option(
      "--schedule <interval>",
      "stay, and run again daily, weekly, monthly, quarterly, or every so many days, such as 10d",
      intervalFrom,
    )
    .option(
      "--max-drift <percent>",
      "change of the first configuration that is no drift",
      numberIn("--max-drift", 0.1, 100),
      5,
    )
    .option("--json", "print one JSON object instead of tables")
    .addOption(workersOption())
    .addOption(pollOption());
  return addTrafficOptions(command).action((flags: TuneFlags) => {
    const again = flags.again === true || flags.schedule !== undefined;
    return untilStopped(
      (signal) => runTune(flags, command, signal),
      flags.url === undefined
        ? `the same command ${again ? "" : "with --resume "}goes on from here`
        : "nothing is kept",
    );
  });
}

/** The exit code by which a script distinguishes a drift from an error (1) and from wrong options (2). */
const DRIFTED_EXIT_CODE = 3;

function intervalFrom(text: string): Interval {
  const interval = parseInterval(text);
  if (interval !== undefined) return interval;
  throw optionError("--schedule", "daily, weekly, monthly, quarterly, or a number of days such as 10d", text);
}

async function runTune(flags: TuneFlags, command: Command, signal: AbortSignal): Promise<void> {
  const { out, schedule, url } = flags;
  if (url !== undefined) {
    const { diagnoseAttached } = await import("./tune-attached.js");
    await diagnoseAttached({ ...withUsualLoad(flags), url }, command, signal);
    return;
  }
  if (flags.resume && (flags.again || schedule !== undefined)) {
    throw optionError("--resume", "left out beside --again and --schedule, which resume by themselves", "both");
  }
  const prepared = await prepareTuning(flags, command, signal);
  await inTuningFolder(out, async () => {
    if (schedule !== undefined) {
      await tuneOnSchedule(() => prepareTuning(flags, command, signal), schedule, flags, signal);
    } else if (flags.again) {
      const ended = await tuneAgain(prepared, flags, signal);
      if (ended?.drift?.verdict === "drifted") process.exitCode = DRIFTED_EXIT_CODE;
    } else {
      const { Journal } = await import("../../lab/tune/journal.js");
      const { print } = await prepared.run(out, new Journal(out, prepared.settings, flags.resume === true));
      print({}, []);
    }
  });
}

/** Adds the usual number of clients, unless the user gives times or a rate, and the usual rounds. */
function withUsualLoad(flags: TuneFlags): TuneFlags & { readonly rounds: number } {
  const { rate, replay, concurrency = USUAL_CLIENTS, rounds = USUAL_ROUNDS } = flags;
  return { ...flags, ...(rate === undefined && replay !== true ? { concurrency } : {}), rounds };
}

async function prepareTuning(flags: TuneFlags, command: Command, signal: AbortSignal): Promise<PreparedTuning> {
  const [{ tune }, lab, { TUNED_ENGINES }, { parseFlags }, { benchedThreads }, report] = await Promise.all([
    import("../../lab/tune/loop.js"),
    import("../../lab/tune/server-bench.js"),
    import("../../lab/tune/tuned-engines.js"),
    import("../../lab/tune/configuration.js"),
    import("../../bench/run/benched-threads.js"),
    import("../../lab/tune/report.js"),
  ]);
  const traffic = withUsualLoad(flags);
  const { rounds, objective, json, maxTrials } = traffic;
  const engine = { engine: flags.engine, program: flags.program };
  if (flags.program !== undefined && flags.engine === "millrace") {
    throw optionError("--program", "given beside --engine vllm", flags.program);
  }
  const price = await priceFrom(flags);
  const planned = await planFromFlags({ ...traffic, ...(price && { pricePerHour: price.usd }) }, command);
  lab.assertTunable(planned, objective);
  // The bundled tasks do not measure other models, so tuning asks for the user's own.
  const tasks = flags.chats === undefined ? [] : await questionsFrom(flags.chats, flags.count);
  if (tasks.length > 0 && !json) {
    const { powerText } = await import("../../quality/compare.js");
    const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
    process.stderr.write(`${powerText(numItems, flags.maxDrop / 100)}\n`);
  }
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const model = await locateModel(flags.model, startStage);
  const start = parseFlags(words(flags.serverArgs));
  const settings: Omit<TuneSettings, "deadlineMs"> = {
    objective,
    start,
    maxTrials,
    minAttainment: flags.minAttainment,
    maxMemoryBytes: flags.maxMemory,
    alternatives: {
      engine: TUNED_ENGINES[flags.engine],
      weights: await weightsFrom(flags, model),
      freeBytes: freemem(),
    },
    numRounds: rounds,
  };
  const numThreads = flags.threads ?? benchedThreads();
  const bench = new lab.ServerBench(
    {
      engine,
      modelPath: model.path,
      start,
      planned,
      objective,
      numThreads,
      timeoutMs: 1000 * flags.timeout,
      numWorkers: flags.workers,
      isPolling: flags.poll === true,
      tasks,
      maxDrop: flags.maxDrop / 100,
      evaluation: EVALUATION,
    },
    startStage,
    signal,
  );
  const { chats, count, weights, maxDrop, maxMemory, minAttainment } = flags;
  const judged = { numThreads, chats, count, weights, maxDrop, maxMemory, minAttainment };
  const told = { engine, start, objective, plan: planned.plan, model: model.name, ...judged };
  const events = (journal: Journal): TuneEvents =>
    json ? recording(journal) : telling(journal, process.stderr, report.trialRow);
  const [{ name: load }] = planned.cells as [Cell];
  const { cpu, numCpus } = machineInfo();
  const machine = `${cpu}, ${numCpus} CPUs`;
  const shown = { model: model.name, load, objective, machine, numRounds: rounds, price };
  return {
    objective,
    settings: told,
    facts: () => factsOf(model, told, startStage),
    async run(folder, journal) {
      const deadlineMs = performance.now() + MS_PER_MINUTE * flags.maxMinutes;
      const tuning = await tune({ ...settings, deadlineMs }, bench, events(journal), journalled(journal), signal);
      const launch = lab.serveWords(engine, tuning.best, flags.model).map(shellWord).join(" ");
      writeFileSync(join(folder, "report.md"), report.markdownOf(tuning, shown, launch));
      writeFileSync(join(folder, "report.html"), report.htmlOf(tuning, shown, launch));
      writeFileSync(join(folder, "millrace.yaml"), report.fleetYaml(model, engine, tuning.best));
      return { tuning, print: (more, lines) => print(tuning, launch, folder, more, lines) };
    },
  };

  function print(tuning: Tuning, launch: string, folder: string, more: object, lines: readonly string[]): void {
    if (json) {
      process.stdout.write(`${jsonText({ ...shown, ...tuning, command: launch, ...more })}\n`);
      return;
    }
    const table =
      tuning.trials.length === 0 ? [] : [formatTable([report.HEADERS, ...report.trialRows(tuning.trials)]), ""];
    const costs = report.costRows(tuning, shown);
    const money = costs.length === 0 ? [] : [formatTable(costs), ""];
    const files = `${folder}: report.html, report.md, millrace.yaml, tune.json`;
    const summary = [...report.summaryLines(tuning, shown), `start it by: ${launch}`, files];
    process.stdout.write(`${[...table, ...money, ...summary, ...lines].join("\n")}\n`);
  }
}

/** The flag's price; otherwise the planner's, if money is the objective. */
async function priceFrom({ objective, pricePerHour, engine }: TuneFlags): Promise<DatedPrice | undefined> {
  const { givenPrice, priceOfThisMachine } = await import("../plan/machine-price.js");
  if (pricePerHour !== undefined) return givenPrice(pricePerHour, "--price-per-hour");
  return objective === "cost" ? priceOfThisMachine(engine !== "millrace") : undefined;
}

/** Other possible causes of a difference: versions, the machine, the model's files, and the options. */
function factsOf({ files }: LocatedModel, told: object, startStage: StartStage): Facts {
  const stage = startStage("model's hash");
  const weights = contentHashOf(files, (fraction) => stage.update(`${Math.round(100 * fraction)} %`));
  stage.done(weights.slice(0, 12));
  const { memoryBytes, ...machine } = machineInfo();
  return { ...told, ...versions(), ...machine, memory: formatBytes(memoryBytes), os: release(), weights };
}

const journalled = ({ trials, first, baseline }: Journal) => ({ trials: [...trials], first, baseline });

const recording = (journal: Journal): TuneEvents => ({
  onFinding: (finding, _, baseline) => journal.begin(finding, baseline),
  onTrial: () => {},
  onOutcome: (trial) => journal.add(trial),
});

function telling(journal: Journal, stream: Pick<NodeJS.WriteStream, "write">, rowOf: typeof trialRow): TuneEvents {
  return {
    onFinding: (finding, _, baseline) => {
      journal.begin(finding, baseline);
      stream.write(`bottleneck: ${finding.bottleneck}: ${finding.because}\n`);
    },
    onTrial: ({ name, predicted }, number) => stream.write(`${number}. ${name}: predicted ${predicted.toFixed(2)} ×\n`),
    onOutcome: (trial) => {
      journal.add(trial);
      const [, , , measured, answers, outcome] = rowOf(trial);
      stream.write(`   ${measured}, ${answers}; ${outcome}\n`);
    },
  };
}

/** Throws invalid_option for weights of unknown size, and the errors of locating models. */
async function weightsFrom(
  { weights = [] }: TuneFlags,
  { path: ownPath }: LocatedModel,
): Promise<Alternatives["weights"]> {
  const { modelWork } = await import("../../bench/run/model-work.js");
  const own = modelWork(ownPath)?.weightBytes;
  return Promise.all(
    weights.map(async (spec) => {
      const { path } = await locateModel(spec, silentStages);
      const bytes = modelWork(path)?.weightBytes;
      if (own === undefined || bytes === undefined)
        throw optionError("--weights", "GGUF files of generating models", spec);
      return { path, bytesShare: bytes / own };
    }),
  );
}
