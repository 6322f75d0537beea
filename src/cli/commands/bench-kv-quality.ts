/** `millrace bench kv-quality`: measures how a smaller KV cache type changes predictions, and how many more sequences it holds. */

import { Command, Option } from "commander";
import { KV_TYPES, type KvType } from "../../backend/ops.js";
import type { Divergence } from "../../bench/engine/divergence.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { locateModel } from "../../formats/locate-model.js";
import { loadTextSide } from "../../text/text-side.js";
import { kvTypeOf } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { readText } from "./tokenize.js";

interface BenchFlags {
  readonly model?: string;
  readonly textFile?: string;
  readonly kvCacheDtype: KvType | "fp8";
  readonly window: number;
  readonly maxTokens: number;
  readonly threads?: number;
  readonly json?: boolean;
}

const REFERENCE = "f16";

export function benchKvQualityCommand(): Command {
  return new Command("kv-quality")
    .description(
      "Compare a model's predictions over a text with another KV cache type against f16: Kullback-Leibler divergence, perplexity, memory.",
    )
    .addOption(modelOption())
    .option("--text-file <file>", "file with the text, special tokens included (default: stdin)")
    .addOption(
      new Option(
        "--kv-cache-dtype <type>",
        "KV cache type to compare with f16: int8, fp8_e4m3 (or fp8), fp8_e5m2, fp4 or f32",
      )
        .choices(["fp8", ...KV_TYPES.filter((type) => type !== REFERENCE)])
        .default("int8"),
    )
    .option("--window <n>", "tokens of a window, each computed on its own", integerIn("--window", 2, 1 << 20), 512)
    .option("--max-tokens <n>", "most tokens of the text", integerIn("--max-tokens", 2, 1 << 30), 16_384)
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--json", "print one JSON object instead of a table")
    .action(runBenchKvQuality);
}

async function runBenchKvQuality(flags: BenchFlags): Promise<void> {
  const startStage = stagesTo(process.stderr);
  const text = readText(flags, "give --text-file, or a text like the model's own on stdin");
  const { path, name } = await locateModel(flags.model, startStage);
  const { tokenizer } = await loadTextSide(path);
  const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: true }).slice(0, flags.maxTokens);
  const [{ benchKvQuality }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/engine/kv-quality.js"),
    import("../../bench/results/machine.js"),
  ]);
  const { window } = flags;
  const kvCacheDtype = kvTypeOf(flags.kvCacheDtype);
  const spec = { modelPath: path, kvCacheDtype, window, numThreads: flags.threads ?? defaultNumThreads() };
  const { divergence, bytes } = await benchKvQuality(spec, ids, startStage, (numTokens, meanKl) => {
    process.stderr.write(`  ${numTokens} of ${ids.length} tokens, divergence ${meanKl.toFixed(5)}\n`);
  });
  const report = {
    model: name,
    kvCacheDtype,
    window,
    ...divergence,
    bytesPerToken: bytes,
  };
  process.stdout.write(
    flags.json
      ? `${jsonText({ ...report, machine: machineInfo(), versions: versions() })}\n`
      : `${tableOf(divergence, bytes, kvCacheDtype)}\n`,
  );
}

function tableOf(divergence: Divergence, bytes: { readonly reference: number; readonly tested: number }, type: string) {
  const { numTokens, meanKl, p99Kl, maxKl, sameTop, referencePerplexity, testedPerplexity } = divergence;
  return formatTable([
    ["", REFERENCE, type],
    ["KV bytes per token", String(bytes.reference), String(bytes.tested)],
    ["sequences in the same memory", "1.00 ×", `${(bytes.reference / bytes.tested).toFixed(2)} ×`],
    ["perplexity", referencePerplexity.toFixed(4), testedPerplexity.toFixed(4)],
    ["KL divergence, mean (nats)", "", meanKl.toFixed(6)],
    ["  p99", "", p99Kl?.toFixed(6) ?? "too few tokens"],
    ["  greatest", "", maxKl.toFixed(6)],
    ["same likeliest token", "", `${(100 * sameTop).toFixed(2)} %`],
    ["tokens", String(numTokens), String(numTokens)],
  ]);
}
