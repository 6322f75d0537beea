/**
 * `millrace bench speculation`: measures the gain of drafts with a given acceptance, against plain decoding in the same
 * process.
 */

import { Command, Option } from "commander";
import type { SpeculationBenchResult, SpeculationBenchSpec } from "../../bench/engine/speculation-bench.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { locateModel } from "../../formats/locate-model.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, numberIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { batchSizes } from "./bench-engine.js";

interface BenchFlags {
  readonly model?: string;
  readonly batch: readonly number[];
  readonly acceptance: number;
  readonly draftTokens: number;
  readonly promptTokens: number;
  readonly genTokens: number;
  readonly temperature: number;
  readonly rounds: number;
  readonly threads?: number;
  readonly json?: boolean;
}

export function benchSpeculationCommand(): Command {
  return new Command("speculation")
    .description(
      "Measure decoding with drafts of a given acceptance against plain decoding; both must give the same tokens.",
    )
    .addOption(modelOption())
    .addOption(
      new Option("--batch <sizes>", "sequences at once").argParser(batchSizes).default([1, 2, 4, 8, 16], "1,2,4,8,16"),
    )
    .option("--acceptance <p>", "probability that a draft token is right", numberIn("--acceptance", 0, 1), 0.85)
    .option("--draft-tokens <n>", "longest draft", integerIn("--draft-tokens", 1, 64), 15)
    .option("--prompt-tokens <n>", "tokens per prompt", integerIn("--prompt-tokens", 1, 1 << 20), 32)
    .option("--gen-tokens <n>", "tokens to generate per sequence", integerIn("--gen-tokens", 2, 1 << 20), 128)
    .option("--temperature <t>", "0 = greedy", numberIn("--temperature", 0, 2), 0)
    .option("--rounds <n>", "measured rounds per batch size", integerIn("--rounds", 1, 1000), 5)
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--json", "print one JSON object instead of a table")
    .action(runBenchSpeculation);
}

async function runBenchSpeculation(flags: BenchFlags): Promise<void> {
  const startStage = stagesTo(process.stderr);
  const { path, name } = await locateModel(flags.model, startStage);
  const [{ benchSpeculationOf }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/engine/draft-engines.js"),
    import("../../bench/results/machine.js"),
  ]);
  const numThreads = flags.threads ?? defaultNumThreads();
  const spec: SpeculationBenchSpec = { ...flags, batches: flags.batch, maxDraftTokens: flags.draftTokens };
  const { results, engine } = await benchSpeculationOf(path, numThreads, spec, startStage, ({ batch, ratio }) => {
    process.stderr.write(`  batch ${batch}: ${ratio.toFixed(2)} × plain decoding\n`);
  });
  const report = {
    results,
    spec,
    model: { name },
    engine,
    machine: machineInfo(),
    versions: versions(),
  };
  process.stdout.write(flags.json ? `${jsonText(report)}\n` : `${tableOf(results)}\n`);
}

/** With the range of the rounds, if there are several. */
function ratioText({ ratio, ratios }: SpeculationBenchResult): string {
  const range = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`;
  return ratios.length < 2 ? ratio.toFixed(2) : `${ratio.toFixed(2)} (${range})`;
}

function tableOf(results: readonly SpeculationBenchResult[]): string {
  const header = [
    "batch",
    "plain tokens/s",
    "with drafts",
    "ratio",
    "allowed",
    "share of it",
    "tokens/step",
    "accepted",
  ];
  const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
  const rows = results.map((result) => [
    String(result.batch),
    result.plainTokensPerS.toFixed(1),
    result.tokensPerS.toFixed(1),
    ratioText(result),
    result.bound.toFixed(2),
    percent(result.ratio / result.bound),
    result.tokensPerStep.toFixed(2),
    result.acceptedShare === undefined ? "" : percent(result.acceptedShare),
  ]);
  return formatTable([header, ...rows]);
}
