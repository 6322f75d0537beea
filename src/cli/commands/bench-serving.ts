/**
 * `millrace bench serving`: measures this server, variants of it and llama-server in alternation under the same
 * traffic.
 */

import { Command } from "commander";
import { locateModel } from "../../formats/locate-model.js";
import { addOutputOptions, type OutputFlags } from "../flags/bench-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf } from "../flags/option-values.js";
import { stagesTo } from "../output/stages.js";
import { measureServers } from "../process/measure-servers.js";

interface ServingFlags extends OutputFlags {
  readonly model?: string;
  readonly scenario?: readonly string[];
  readonly llamaServer?: string;
  readonly variant: readonly string[];
  readonly rounds: number;
  readonly threads?: number;
}

export function benchServingCommand(): Command {
  const command = new Command("serving")
    .description(
      "Measure throughput and latency of whole servers under the same traffic, in alternation, each server restarted for each run.",
    )
    .addOption(modelOption())
    .option(
      "--scenario <names>",
      "kinds of traffic, separated by commas (default: all; an unknown name lists them)",
      listOf("--scenario"),
    )
    .option("--llama-server <binary>", "binary of llama.cpp's server, to measure too")
    .option(
      "--variant <flags>",
      "a variant of this server with these flags, such as '--batching static'; repeatable",
      (text: string, before: readonly string[]) => [...before, text],
      [] as readonly string[],
    )
    .option("--rounds <n>", "runs of each server", integerIn("--rounds", 1, 100), 3)
    .option(
      "--threads <n>",
      "threads of each server (default: all physical cores but one, for the load generator)",
      integerIn("--threads", 1, 1024),
    );
  return addOutputOptions(command).action(runBenchServing);
}

async function runBenchServing(flags: ServingFlags): Promise<void> {
  const { servingScenarios, servingJob } = await import("../../bench/run/serving.js");
  const scenarios = servingScenarios(flags.scenario);
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  await measureServers({ ...servingJob(scenarios, { ...flags, modelPath: path }), restarts: "run" }, flags);
}
