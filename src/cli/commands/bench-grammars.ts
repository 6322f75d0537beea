/** `millrace bench grammars`: measures compile times and mask times of typical schemas on a model's vocabulary. */

import { Command } from "commander";
import type { GrammarBenchReport } from "../../bench/engine/grammar-bench.js";
import { locateModel } from "../../formats/locate-model.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

interface BenchFlags {
  readonly model?: string;
  readonly rounds: number;
  readonly json?: boolean;
}

export function benchGrammarsCommand(): Command {
  return new Command("grammars")
    .description("Measure compile times and mask times of typical JSON schemas on a model's vocabulary.")
    .addOption(modelOption())
    .option("--rounds <n>", "measured rounds", integerIn("--rounds", 1, 100), 3)
    .option("--json", "print one JSON object instead of a table")
    .action(runBenchGrammars);
}

async function runBenchGrammars(flags: BenchFlags): Promise<void> {
  const { path, name } = await locateModel(flags.model, stagesTo(process.stderr));
  const [{ benchGrammars }, { GRAMMAR_CASES, TRIVIAL_RECIPE }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/engine/grammar-bench.js"),
    import("../../bench/engine/grammar-cases.js"),
    import("../../bench/results/machine.js"),
  ]);
  const report = benchGrammars(path, TRIVIAL_RECIPE, GRAMMAR_CASES, flags.rounds);
  const whole = { ...report, model: { name }, machine: machineInfo(), versions: versions() };
  process.stdout.write(flags.json ? `${jsonText(whole)}\n` : `${tableOf(report)}\n`);
}

function tableOf({ vocabSize, startMs, results }: GrammarBenchReport): string {
  const header = ["schema", "compile ms", "tokens", "mask ms, median", "p90", "max"];
  const rows = results.map(({ name, compileMs, numTokens, maskMs }) => [
    name,
    compileMs.median.toFixed(0),
    String(numTokens),
    ...[maskMs.median, maskMs.p90, maskMs.max].map((ms) => ms.toFixed(2)),
  ]);
  return `${vocabSize} tokens; start ${startMs.toFixed(0)} ms\n${formatTable([header, ...rows])}`;
}
