/** `millrace bench engine`: measures prefill and decode speed of a model in this process, without HTTP or text. */

import { Command, Option } from "commander";
import type { EngineBenchResult, EngineBenchSample, EngineBenchSpec } from "../../bench/engine/engine-bench.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { MillraceError } from "../../core/errors.js";
import type { MachineSpeeds } from "../../core/machine-speeds.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { locateModel } from "../../formats/locate-model.js";
import { type EngineSettings, engineOptionsFor } from "../../local/start-engine.js";
import { addEngineOptions, type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

interface BenchFlags extends EngineFlags {
  readonly model?: string;
  readonly promptTokens: number;
  readonly genTokens: number;
  readonly batch: readonly number[];
  readonly sharedPrefix: number;
  readonly repetitions: number;
  readonly json?: boolean;
}

const MAX_TOKENS = 1 << 24;
const MAX_BATCH = 4096;

/** @example batchSizes("1,2,4") // [1, 2, 4] */
export function batchSizes(text: string): number[] {
  return listOf("--batch")(text, undefined).map(integerIn("--batch", 1, MAX_BATCH));
}

export function benchEngineCommand(): Command {
  const command = new Command("engine")
    .description("Measure a model's prefill and decode speed in process: random prompts, greedy, ignoring end-of-text.")
    .addOption(modelOption())
    .option(
      "--prompt-tokens <n>",
      "tokens per prompt, the context at the start of decoding",
      integerIn("--prompt-tokens", 1, MAX_TOKENS),
      512,
    )
    .option("--gen-tokens <n>", "tokens to generate per sequence", integerIn("--gen-tokens", 2, MAX_TOKENS), 64)
    .addOption(
      new Option("--batch <sizes>", "sequences at once; several sizes separated by commas")
        .argParser(batchSizes)
        .default([1, 2, 4, 8, 16], "1,2,4,8,16"),
    )
    .option(
      "--shared-prefix <n>",
      "number of first prompt tokens that all sequences share",
      integerIn("--shared-prefix", 0, MAX_TOKENS),
      0,
    )
    .option("--repetitions <n>", "measured rounds per batch size", integerIn("--repetitions", 1, 1000), 3)
    .option("--json", "print one JSON object instead of a table");
  return addEngineOptions(command).action(runBenchEngine);
}

function specOf(flags: BenchFlags): EngineBenchSpec {
  const { promptTokens, genTokens, sharedPrefix, repetitions, batch, maxNumBatchedTokens } = flags;
  if (sharedPrefix >= promptTokens) {
    const message = `expected --shared-prefix below --prompt-tokens ${promptTokens}, got ${sharedPrefix}`;
    throw new MillraceError("invalid_option", message, { hint: "each prompt needs a token of its own" });
  }
  const largest = Math.max(...batch);
  if (maxNumBatchedTokens !== undefined && largest > maxNumBatchedTokens) {
    const message = `expected --max-num-batched-tokens of at least the largest --batch, got ${maxNumBatchedTokens} for ${largest}`;
    throw new MillraceError("invalid_option", message, { hint: "raise --max-num-batched-tokens" });
  }
  return { batches: batch, promptTokens, genTokens, sharedPrefix, repetitions };
}

/**
 * A seat for every sequence, steps of any length, and plain decoding, since random prompts say nothing about drafts.
 */
function settingsOf(flags: BenchFlags): EngineSettings {
  if (flags.speculativeConfig !== undefined && flags.speculativeConfig.method !== "none") {
    const message = `expected plain decoding, got --speculative-config with method ${flags.speculativeConfig.method}`;
    throw new MillraceError("invalid_option", message, { hint: "measure drafts with millrace bench speculation" });
  }
  const maxNumSeqs = Math.max(flags.maxNumSeqs, ...flags.batch);
  return { ...engineSettingsFrom({ ...flags, maxNumSeqs }, NO_SPECULATION), maxStepMs: 0 };
}

async function runBenchEngine(flags: BenchFlags): Promise<void> {
  const spec = specOf(flags);
  const startStage = stagesTo(process.stderr);
  const settings = settingsOf(flags);
  const located = await locateModel(flags.model, startStage);
  const { path, name } = located;
  const options = await engineOptionsFor(settings, located, startStage);
  const [{ startEngine }, { benchEngine }, { speedReader }, { machineInfo, versions }] = await Promise.all([
    import("../../engine/engine.js"),
    import("../../bench/engine/engine-bench.js"),
    import("../../bench/kernels/probes.js"),
    import("../../bench/results/machine.js"),
  ]);
  const stage = startStage("engine");
  const startMs = performance.now();
  const engine = await startEngine(options, (progress) => stage.update(progress.stage));
  const loadMs = performance.now() - startMs;
  stage.done(`${engine.info.architecture}, ${engine.info.weightType}, ${engine.info.isa}`);
  const numThreads = options.numThreads ?? defaultNumThreads();
  const readings: MachineSpeeds[] = [];
  const read = speedReader(numThreads);
  try {
    const onRound = (batch: number, repetition: number, sample: EngineBenchSample): void => {
      const { prefillTokensPerS, decodeTokensPerS } = sample;
      const speeds = `prefill ${prefillTokensPerS.toFixed(1)}, decode ${decodeTokensPerS.toFixed(1)} tokens/s`;
      process.stderr.write(`  batch ${batch}, round ${repetition} of ${spec.repetitions}: ${speeds}\n`);
    };
    const results = await benchEngine(engine, spec, onRound, () => readings.push(...read()));
    const probes = readings.length > 0 ? { probes: { numThreads, readings } } : {};
    const report = { results, ...probes, model: { name, path }, loadMs, engine: engine.info, options };
    const about = { machine: machineInfo(), versions: versions() };
    process.stdout.write(flags.json ? `${jsonText({ ...report, ...about })}\n` : `${tableOf(results)}\n`);
  } finally {
    await engine.close();
  }
}

function tableOf(results: readonly EngineBenchResult[]): string {
  const header = ["batch", "prompt", "generated", "prefill tokens/s", "spread", "decode tokens/s", "spread"];
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const rows = results.map((result) => [
    String(result.batch),
    String(result.promptTokens),
    String(result.genTokens),
    result.prefillTokensPerS.toFixed(1),
    percent(result.prefillSummary.spread),
    result.decodeTokensPerS.toFixed(1),
    percent(result.decodeSummary.spread),
  ]);
  return formatTable([header, ...rows]);
}
