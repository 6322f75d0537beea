/** `millrace bench serving`: whole servers under the same traffic in alternation: this one, llama-server, and this one with other flags. */

import { Command } from "commander";
import { benchedThreads } from "../../bench/run/benched-threads.js";
import type { Planned } from "../../bench/run/plan.js";
import type { Scenario } from "../../bench/workload/scenarios.js";
import { SERVING_SCENARIOS } from "../../bench/workload/serving-scenarios.js";
import { MillraceError } from "../../core/errors.js";
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

const TIMEOUT_MS = 600_000;

export function benchServingCommand(): Command {
  const command = new Command("serving")
    .description(
      "Measure throughput and latency of whole servers under the same traffic, each started anew for each round, in alternation.",
    )
    .addOption(modelOption())
    .option(
      "--scenario <names>",
      "which traffic, separated by commas (default: all; listed when a name is unknown)",
      listOf("--scenario"),
    )
    .option("--llama-server <binary>", "llama.cpp's server, to compare with")
    .option(
      "--variant <flags>",
      "this server once more with these flags, such as '--batching static'; may be repeated",
      (text: string, before: readonly string[]) => [...before, text],
      [] as readonly string[],
    )
    .option("--rounds <n>", "rounds of each server", integerIn("--rounds", 1, 100), 3)
    .option(
      "--threads <n>",
      "threads of each server (default: physical cores but one, which the load generator has)",
      integerIn("--threads", 1, 1024),
    );
  return addOutputOptions(command).action(runBenchServing);
}

async function runBenchServing(flags: ServingFlags): Promise<void> {
  const chosen = choose(flags.scenario);
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  const [{ llamaServer, millraceServer }, { openModel }, { kvBytesPerToken }] = await Promise.all([
    import("../../bench/run/servers.js"),
    import("../../model/open-model.js"),
    import("../../model/description/sizes.js"),
  ]);
  const numThreads = flags.threads ?? benchedThreads();
  const model = { path, numThreads, kvBytesPerToken: kvBytesPerToken(openModel(path).config, "f16") };
  const launches = [
    millraceServer("millrace", model),
    ...(flags.llamaServer === undefined ? [] : [llamaServer(flags.llamaServer, model)]),
    ...flags.variant.map((text) => millraceServer(`millrace ${text}`, model, text.split(/\s+/))),
  ];
  const targets = launches.map((launch) => ({ name: launch.name, launch, timeoutMs: TIMEOUT_MS }));
  await measureServers({ targets, planned: await planOf(chosen, flags.rounds), isFreshEachRun: true }, flags);
}

function choose(names: readonly string[] | undefined): readonly Scenario[] {
  return (names ?? SERVING_SCENARIOS.map((each) => each.name)).map((name) => {
    const scenario = SERVING_SCENARIOS.find((each) => each.name === name);
    if (scenario !== undefined) return scenario;
    const known = SERVING_SCENARIOS.map((each) => `${each.name} (${each.about})`).join("\n  ");
    throw new MillraceError(
      "invalid_option",
      `expected --scenario to be among\n  ${known}\ngot ${JSON.stringify(name)}`,
    );
  });
}

async function planOf(scenarios: readonly Scenario[], rounds: number): Promise<Planned> {
  const [{ plannedCell }, { cellsOf }] = await Promise.all([
    import("../../bench/run/plan.js"),
    import("../../bench/workload/scenarios.js"),
  ]);
  const cells = scenarios.flatMap(cellsOf);
  const plan = { scenario: "serving", cells: cells.map(plannedCell), rounds, seed: 0, stopsWhenSaturated: false };
  return { cells, plan };
}
