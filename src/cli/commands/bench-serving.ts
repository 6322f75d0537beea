/** `millrace bench serving`: whole servers under the same traffic in alternation: this one, llama-server, and this one with other flags. */
import { writeFileSync } from "node:fs";
import { Command } from "commander";
import type { ServingSample } from "../../bench/serving/run.js";
import type { Scenario } from "../../bench/serving/scenarios.js";
import { MillraceError } from "../../core/errors.js";
import { cpuCores, defaultNumThreads } from "../cpu.js";
import { formatTable } from "../format.js";
import { locateModel, modelOption } from "../model.js";
import { integerIn, listOf } from "../option-values.js";
import { stagesTo } from "../stages.js";

interface BenchFlags {
  readonly model?: string;
  readonly scenario?: readonly string[];
  readonly llamaServer?: string;
  readonly variant: readonly string[];
  readonly rounds: number;
  readonly threads?: number;
  readonly json?: string;
}

export function benchServingCommand(): Command {
  return new Command("serving")
    .description(
      "Throughput and latency of whole servers under the same traffic, each started anew for each round, in alternation.",
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
    .option("--threads <n>", "threads of each server (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--json <file>", "also write every sample to a file")
    .action(runBenchServing);
}

async function runBenchServing(flags: BenchFlags): Promise<void> {
  const startStage = stagesTo(process.stderr);
  const { path, name } = await locateModel(flags.model, startStage);
  const [servers, scenarios, { runServing }, { openModel }, { kvBytesPerToken }, { machineInfo, versions }] =
    await Promise.all([
      import("../../bench/serving/servers.js"),
      import("../../bench/serving/scenarios.js"),
      import("../../bench/serving/run.js"),
      import("../../engine/model/open-model.js"),
      import("../../engine/model/config.js"),
      import("../../bench/machine.js"),
    ]);
  const chosen = choose(scenarios.SCENARIOS, flags.scenario);
  const { config } = openModel(path);
  const numThreads = flags.threads ?? defaultNumThreads(cpuCores());
  const model = { path, numThreads, kvBytesPerToken: kvBytesPerToken(config, "f16") };
  const kinds = [
    servers.millraceServer("millrace", model),
    ...(flags.llamaServer === undefined ? [] : [servers.llamaServer(flags.llamaServer, model)]),
    ...flags.variant.map((text) => servers.millraceServer(`millrace ${text}`, model, text.split(/\s+/))),
  ];
  const spec = { rounds: flags.rounds, vocabSize: config.vocabSize };
  const samples = await runServing(kinds, chosen, spec, ({ scenario, server, round, measures }) => {
    const speed = `${measures.tokensPerS.toFixed(1)} tokens/s, first token p95 ${measures.ttftP95Ms.toFixed(0)} ms`;
    process.stderr.write(`  ${scenario}, round ${round}, ${server}: ${speed}\n`);
  });
  if (flags.json !== undefined) {
    const report = { model: name, samples, machine: machineInfo(), versions: versions() };
    writeFileSync(flags.json, `${JSON.stringify(report, null, 1)}\n`);
  }
  process.stdout.write(
    `${await tableOf(
      samples,
      chosen,
      kinds.map((kind) => kind.name),
    )}\n`,
  );
}

function choose(all: readonly Scenario[], names: readonly string[] | undefined): readonly Scenario[] {
  if (names === undefined) return all;
  return names.map((name) => {
    const scenario = all.find((each) => each.name === name);
    if (scenario !== undefined) return scenario;
    const known = all.map((each) => `${each.name} (${each.about})`).join("\n  ");
    throw new MillraceError(
      "invalid_option",
      `expected --scenario to be among\n  ${known}\ngot ${JSON.stringify(name)}`,
    );
  });
}

async function tableOf(samples: readonly ServingSample[], scenarios: readonly Scenario[], servers: readonly string[]) {
  const { medianOf } = await import("../../bench/serving/run.js");
  const header = ["scenario", "server", "tokens/s", "ratio", "TTFT p50", "TTFT p95", "ratio", "ITL p50", "ITL p99"];
  const rows = scenarios.flatMap(({ name }) =>
    servers.map((server) => {
      const of = (value: Parameters<typeof medianOf>[3], which = server) => medianOf(samples, name, which, value);
      const tokensPerS = of((each) => each.tokensPerS);
      const ttft = of((each) => each.ttftP95Ms);
      // The first server's speed in proportion to this one's.
      const ratio = (mine: number, first: number) => (server === servers[0] ? "" : (first / mine).toFixed(2));
      return [
        ...[
          name,
          server,
          tokensPerS.toFixed(1),
          ratio(
            tokensPerS,
            of((each) => each.tokensPerS, servers[0]),
          ),
        ],
        ...[`${of((each) => each.ttftP50Ms).toFixed(0)} ms`, `${ttft.toFixed(0)} ms`],
        ...[
          ratio(
            ttft,
            of((each) => each.ttftP95Ms, servers[0]),
          ),
        ],
        ...[`${of((each) => each.itlP50Ms).toFixed(1)} ms`, `${of((each) => each.itlP99Ms).toFixed(1)} ms`],
      ];
    }),
  );
  const arrivals = samples.filter(({ measures }) => measures.arrival !== undefined);
  const notes = arrivals.map(({ server, round, measures: { arrival } }) => {
    const { beforeP99Ms, duringP99Ms, ttftMs } = arrival!;
    const ratio = (duringP99Ms / beforeP99Ms).toFixed(2);
    return `long-arrival, ${server}, round ${round}: p99 between tokens ${beforeP99Ms.toFixed(1)} ms before, ${duringP99Ms.toFixed(1)} ms during (${ratio} ×), first token after ${(ttftMs / 1000).toFixed(1)} s`;
  });
  return [formatTable([header, ...rows]), ...notes].join("\n");
}
