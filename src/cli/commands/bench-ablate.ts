/** `millrace bench ablate`: two baselines, every optimisation alone, all together, all but one. */

import { Command, Option } from "commander";
import type { CellWishes } from "../../bench/ablation/cells.js";
import { locateModel } from "../../formats/locate-model.js";
import { addOutputOptions, concurrencies, type OutputFlags, shapePairs } from "../flags/bench-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { parseSpeculativeConfig } from "../flags/speculative-config.js";
import { stagesTo } from "../output/stages.js";
import { measureServers } from "../process/measure-servers.js";

interface AblateFlags extends OutputFlags {
  readonly model?: string;
  readonly quantized?: readonly string[];
  readonly speculativeConfig: string;
  readonly cells?: readonly string[];
  readonly shape: CellWishes["shapes"];
  readonly concurrency: readonly number[];
  readonly scale?: number;
  readonly duration?: number;
  readonly rounds?: number;
  readonly threads?: number;
  readonly quick?: boolean;
  readonly from?: string;
}

/** Defaults without and with --quick. */
const FULL = { scale: 1, durationS: 60, rounds: 3 };
const QUICK = { scale: 0.25, durationS: 3, rounds: 1 };
const QUICK_CONCURRENCY = [1, 4, 16];

export function benchAblateCommand(): Command {
  const command = new Command("ablate")
    .description(
      "Measure the gain of each optimisation: naive (static batching, contiguous KV, F16), vanilla (continuous batching, paged KV, F16), each optimisation alone, all together, all but one.",
    )
    .addOption(modelOption())
    .option(
      "--quantized <paths>",
      "the same model quantised, in files separated by commas: the first is an optimisation, the others are measured alone",
      listOf("--quantized"),
    )
    .option(
      "--speculative-config <json>",
      "JSON for the optimisation by speculation",
      checkedConfig,
      '{"method":"auto"}',
    )
    .option(
      "--cells <names>",
      "only cells whose names begin with these, separated by commas (an unknown name lists them)",
      listOf("--cells"),
    )
    .addOption(
      new Option("--shape <in/out,…>", "lengths of the load ladder")
        .argParser(shapePairs)
        .default([[512, 512]], "512/512"),
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
    .option("--from <file>", "measure nothing; make tables and pages of saved results");
  return addOutputOptions(command).action(runBenchAblate);
}

function checkedConfig(text: string): string {
  parseSpeculativeConfig(text);
  return text;
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
  const isDefaultLoad = command.getOptionValueSource("concurrency") === "default";
  const concurrency = flags.quick === true && isDefaultLoad ? QUICK_CONCURRENCY : flags.concurrency;
  const usual = flags.quick === true ? QUICK : FULL;
  const [{ ablationOf }, { benchedThreads }] = await Promise.all([
    import("../../bench/run/ablation.js"),
    import("../../bench/run/benched-threads.js"),
  ]);
  const { rounds = usual.rounds, threads = benchedThreads() } = flags;
  const wishes = {
    scale: flags.scale ?? usual.scale,
    durationS: flags.duration ?? usual.durationS,
    shapes: flags.shape,
    concurrency,
    only: flags.cells,
  };
  const { planned, targetsFor } = ablationOf({ ...flags, rounds, threads }, wishes);
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  const targets = targetsFor(path);
  await measureServers({ targets, planned, isFreshEachRun: true, numThreads: threads }, flags);
}
