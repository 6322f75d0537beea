/** `millrace bench ablate`: baselines, every optimisation of an engine alone, all together, all but one. */

import { Command, Option } from "commander";
import type { CellWishes } from "../../bench/ablation/cells.js";
import { ABLATED_ENGINES, type AblatedEngineName } from "../../bench/ablation/engines/index.js";
import { locateModel } from "../../formats/locate-model.js";
import { addOutputOptions, concurrencies, type OutputFlags, refuseGiven, shapePairs } from "../flags/bench-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { parseSpeculativeConfig, readSpeculativeObject } from "../flags/speculative-config.js";
import { stagesTo } from "../output/stages.js";
import { measureServers } from "../process/measure-servers.js";

interface AblateFlags extends OutputFlags {
  readonly model?: string;
  readonly engine: AblatedEngineName;
  readonly program?: string;
  readonly transformers?: string;
  readonly quantized?: readonly string[];
  readonly speculativeConfig?: string;
  readonly cells?: readonly string[];
  readonly shape?: CellWishes["shapes"];
  readonly concurrency: readonly number[];
  readonly scale?: number;
  readonly duration?: number;
  readonly rounds?: number;
  readonly threads?: number;
  readonly quick?: boolean;
  readonly pricePerHour?: number;
  readonly from?: string;
  readonly running?: string;
  readonly runningModel?: string;
  readonly apiKey?: string;
}

/** Defaults without and with --quick. */
const FULL = { scale: 1, durationS: 60, rounds: 3 };
const QUICK = { scale: 0.25, durationS: 3, rounds: 1 };
const QUICK_CONCURRENCY = [1, 4, 16];

export function benchAblateCommand(): Command {
  const command = new Command("ablate")
    .description(
      "Measure the gain of each optimisation of an engine: naive (static batching or one request at a time), vanilla (continuous batching, paged KV, 16 bits), each optimisation alone, all together, all but one.",
    )
    .addOption(modelOption())
    .addOption(
      new Option("--engine <name>", "engine to measure").choices(Object.keys(ABLATED_ENGINES)).default("millrace"),
    )
    .option("--program <path>", "the engine's own program, such as /opt/vllm/bin/vllm (default: the one in PATH)")
    .option(
      "--transformers <python>",
      "a Python with torch and transformers: adds Hugging Face transformers as baselines, one request at a time and in static batches; --model is then a folder",
    )
    .option(
      "--quantized <paths>",
      "the same model quantised, in files separated by commas: the first is an optimisation, the others are measured alone",
      listOf("--quantized"),
    )
    .option(
      "--speculative-config <json>",
      "JSON for the optimisation by speculation (default: the engine's own drafter without a model)",
    )
    .option(
      "--cells <names>",
      "only cells whose names begin with these, separated by commas (an unknown name lists them)",
      listOf("--cells"),
    )
    .addOption(
      new Option(
        "--shape <in/out,…>",
        "lengths of the load ladder (default: 512/512,1024/512,2048/1024, as far as the model's context reaches)",
      ).argParser(shapePairs),
    )
    .addOption(
      new Option("--concurrency <n,…>", "clients at once in the load ladder (1,4,16 with --quick)")
        .argParser(concurrencies)
        .default([1, 2, 4, 8, 16], "1,2,4,8,16"),
    )
    .option("--scale <factor>", "factor on all lengths and the KV memory", numberIn("--scale", 0.01, 100))
    .option(
      "--duration <seconds>",
      "time after which a run sends no new requests (default: 60)",
      numberIn("--duration", 0.1, 1e6),
    )
    .option("--rounds <n>", "runs of each server in each cell (default: 3)", integerIn("--rounds", 1, 100))
    .option(
      "--threads <n>",
      "threads of each server (default: all physical cores but one, for the load generator); at least 2 for the half",
      integerIn("--threads", 1, 1024),
    )
    .option(
      "--quick",
      "a quarter of all lengths, 3 seconds per run, one round: a trial, too short for reliable figures",
    )
    .option("--price-per-hour <price>", "price of this machine, for the cost", numberIn("--price-per-hour", 0, 1e6))
    .option(
      "--running <url>",
      "a running server of --model with every optimisation: measures only vanilla beside it, under the load ladder",
    )
    .option("--running-model <name>", "the model's name at --running (default: the first)")
    .addOption(new Option("--api-key <key>", "API key of --running").env("OPENAI_API_KEY"))
    .option("--from <file>", "measure nothing; make tables and pages of saved results");
  return addOutputOptions(command).action(runBenchAblate);
}

async function runBenchAblate(flags: AblateFlags, command: Command): Promise<void> {
  if (flags.from !== undefined) {
    const [{ readReport }, { presentReport }] = await Promise.all([
      import("../../bench/results/schema.js"),
      import("../output/bench-report.js"),
    ]);
    await presentReport(readReport(flags.from), flags);
    return;
  }
  if (flags.running !== undefined) {
    const hint = "beside a running server only vanilla is measured: leave this option out, or --running";
    refuseGiven(command, ["cells", "quantized", "transformers"], "--running without other servers and cells", hint);
  }
  // Other engines have their own keys.
  if (flags.speculativeConfig !== undefined)
    (flags.engine === "millrace" ? parseSpeculativeConfig : readSpeculativeObject)(flags.speculativeConfig);
  const isDefaultLoad = command.getOptionValueSource("concurrency") === "default";
  const concurrency = flags.quick === true && isDefaultLoad ? QUICK_CONCURRENCY : flags.concurrency;
  const usual = flags.quick === true ? QUICK : FULL;
  const [{ ablationOf, usualShapes }, { predictsText }, { benchedThreads }] = await Promise.all([
    import("../../bench/run/ablation.js"),
    import("../../bench/engine/text-prediction.js"),
    import("../../bench/run/benched-threads.js"),
  ]);
  const { rounds = usual.rounds, threads = benchedThreads() } = flags;
  const startStage = stagesTo(process.stderr);
  const { path } = await locateModel(flags.model, startStage);
  const { scale = usual.scale, duration: durationS = usual.durationS, shape = usualShapes(path, scale) } = flags;
  const wishes = { scale, durationS, shapes: shape, concurrency, only: flags.cells };
  const { running: url, runningModel: model, apiKey } = flags;
  const running = url === undefined ? undefined : { url, model, apiKey };
  const hasSpeculation = running !== undefined || (await predictsText(path, threads, startStage));
  const ablation = ablationOf(path, { ...flags, running, hasSpeculation, rounds, threads }, wishes);
  await measureServers({ ...ablation, numThreads: threads }, flags);
}
