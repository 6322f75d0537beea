/**
 * `millrace bench drafts`: measures the gain of speculation on the user's chats, against plain decoding in the same
 * process.
 */

import { Command, Option } from "commander";
import type { DraftsBenchResult, DraftsBenchSpec, PromptSet } from "../../bench/engine/drafts-bench.js";
import type { Estimate } from "../../bench/measure/intervals.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { MillraceError } from "../../core/errors.js";
import { DEFAULT_SPECULATIVE_CONFIG, type SpeculativeConfig } from "../../engine/api/speculative-config.js";
import { locateModel } from "../../formats/locate-model.js";
import { chatPromptIds, loadTextSide, type TextSide } from "../../text/text-side.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, numberIn } from "../flags/option-values.js";
import { parseSpeculativeConfig } from "../flags/speculative-config.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { batchSizes } from "./bench-engine.js";

interface BenchFlags {
  readonly model?: string;
  readonly chats?: string;
  readonly speculativeConfig: SpeculativeConfig;
  readonly batch: readonly number[];
  readonly prompts: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly rounds: number;
  readonly threads?: number;
  readonly json?: boolean;
}

export function benchDraftsCommand(): Command {
  return new Command("drafts")
    .description(
      "Measure decoding with this server's drafters against plain decoding, over your chats and random tokens; both must give the same tokens.",
    )
    .addOption(modelOption())
    .option(
      "--chats <file>",
      'JSON lines of {"family", "messages"}; a final message of the assistant is left out; results are by family',
    )
    .addOption(
      new Option("--speculative-config <json>", "speculation, as in serve")
        .argParser(parseSpeculativeConfig)
        .default(DEFAULT_SPECULATIVE_CONFIG, '{"method":"auto"}'),
    )
    .addOption(
      new Option("--batch <sizes>", "requests at once").argParser(batchSizes).default([1, 2, 4, 8, 16], "1,2,4,8,16"),
    )
    .option(
      "--prompts <n>",
      "prompts of a round, at least one for each request at once",
      integerIn("--prompts", 1, 1000),
      8,
    )
    .option("--max-tokens <n>", "longest answer", integerIn("--max-tokens", 2, 1 << 20), 128)
    .option("--temperature <t>", "0 = greedy", numberIn("--temperature", 0, 2), 0)
    .option("--rounds <n>", "measured rounds per batch size", integerIn("--rounds", 1, 1000), 5)
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--json", "print one JSON object instead of a table")
    .action(runBenchDrafts);
}

async function runBenchDrafts(flags: BenchFlags): Promise<void> {
  const startStage = stagesTo(process.stderr);
  const { path, name } = await locateModel(flags.model, startStage);
  const [{ benchDraftsOf }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/engine/draft-engines.js"),
    import("../../bench/results/machine.js"),
  ]);
  const chats = flags.chats === undefined ? [] : await readSets(flags.chats, await loadTextSide(path));
  const numThreads = flags.threads ?? defaultNumThreads();
  const spec: DraftsBenchSpec = { ...flags, batches: flags.batch, promptsPerRound: flags.prompts };
  const tell = ({ set, batch, decoding }: DraftsBenchResult): void => {
    process.stderr.write(`  ${set}, ${batch} at once: ${shownRatio(decoding)} plain decoding\n`);
  };
  const config = flags.speculativeConfig;
  const results = await benchDraftsOf(path, numThreads, chats, config, spec, startStage, tell);
  const { speculativeConfig } = flags;
  const report = { model: name, speculativeConfig, spec, results, machine: machineInfo(), versions: versions() };
  process.stdout.write(flags.json ? `${jsonText(report)}\n` : `${tableOf(results)}\n`);
}

/**
 * Prompts by family, in the file's order, each once. Throws file_unreadable, template_missing, and invalid_option with
 * the line.
 */
async function readSets(file: string, { tokenizer, chatTemplate }: TextSide): Promise<PromptSet[]> {
  const { readPrompts } = await import("../../distill/prompts.js");
  if (chatTemplate === undefined) {
    throw new MillraceError("template_missing", "expected a model with a chat template for --chats, got one without");
  }
  const sets = new Map<string, number[][]>();
  for (const { family = "chats", messages } of readPrompts(file)) {
    const prompts = sets.get(family) ?? [];
    prompts.push(chatPromptIds(tokenizer, chatTemplate, messages));
    sets.set(family, prompts);
  }
  return [...sets].map(([name, prompts]) => ({ name, prompts, stopTokenIds: [...tokenizer.stopIds] }));
}

function shownRatio({ value, low, high }: Estimate): string {
  const interval = low === undefined || high === undefined ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`;
  return `${value.toFixed(2)} ×${interval}`;
}

function tableOf(results: readonly DraftsBenchResult[]): string {
  const header = ["prompts", "at once", "decoding, 95 %", "whole run, 95 %", "tokens", "accepted"];
  const rows = results.map(({ set, batch, decoding, wholeRun, numTokens, acceptedShare }) => [
    set,
    String(batch),
    shownRatio(decoding),
    shownRatio(wholeRun),
    String(numTokens),
    acceptedShare === undefined ? "" : `${(100 * acceptedShare).toFixed(0)} %`,
  ]);
  return formatTable([header, ...rows]);
}
