/**
 * `millrace bench kv-quality`: measures how a smaller KV cache type, or eviction, changes predictions, and how many
 * more sequences it holds.
 */

import { Command, Option } from "commander";
import { KV_TYPES, type KvType } from "../../backend/ops.js";
import type { Divergence } from "../../bench/engine/divergence.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { optionError } from "../../core/option-error.js";
import { type EvictionOptions, evictionText } from "../../engine/api/kv-eviction.js";
import { locateModel } from "../../formats/locate-model.js";
import { loadTextSide } from "../../text/text-side.js";
import { evictionOf, kvTypeOf } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { readText } from "./tokenize.js";

interface BenchFlags {
  readonly model?: string;
  readonly textFile?: string;
  readonly kvCacheDtype?: KvType | "fp8";
  readonly kvEviction?: EvictionOptions;
  readonly decode?: number;
  readonly window: number;
  readonly maxTokens: number;
  readonly threads?: number;
  readonly json?: boolean;
}

const REFERENCE = "f16";

export function benchKvQualityCommand(): Command {
  return new Command("kv-quality")
    .description(
      "Compare a model's predictions over a text with another KV cache type, or with eviction, against f16 and all entries: Kullback-Leibler divergence, perplexity, memory.",
    )
    .addOption(modelOption())
    .option("--text-file <file>", "file with the text, special tokens included (default: stdin)")
    .addOption(
      new Option(
        "--kv-cache-dtype <type>",
        "KV cache type to compare with f16: int8, fp8_e4m3 (or fp8), fp8_e5m2, fp4 or f32 (default: int8, with --kv-eviction f16)",
      ).choices(["fp8", ...KV_TYPES.filter((type) => type !== REFERENCE)]),
    )
    .option(
      "--kv-eviction <policy:budget>",
      "eviction to compare with all entries, such as snapkv:25%",
      evictionOf("--kv-eviction"),
    )
    .option(
      "--decode <n>",
      "tokens at each window's end that are decoded as an answer, and alone compared (default: none, with --kv-eviction a quarter)",
      integerIn("--decode", 0, 1 << 20),
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
  const { window, kvEviction } = flags;
  const kvCacheDtype = kvTypeOf(flags.kvCacheDtype ?? (kvEviction === undefined ? "int8" : REFERENCE));
  const numDecoded = flags.decode ?? (kvEviction === undefined ? 0 : Math.floor(window / 4));
  if (numDecoded >= window)
    throw optionError("--decode", `fewer tokens than a window of ${window}`, String(numDecoded));
  const numThreads = flags.threads ?? defaultNumThreads();
  const spec = { modelPath: path, kvCacheDtype, kvEviction, numDecoded, window, numThreads };
  const { divergence, bytes, keptShare } = await benchKvQuality(spec, ids, startStage, (numTokens, meanKl) => {
    process.stderr.write(`  ${numTokens} of ${ids.length} tokens, divergence ${meanKl.toFixed(5)}\n`);
  });
  const report = {
    model: name,
    kvCacheDtype,
    kvEviction,
    window,
    numDecoded,
    ...divergence,
    bytesPerToken: bytes,
    keptShare,
  };
  process.stdout.write(
    flags.json
      ? `${jsonText({ ...report, machine: machineInfo(), versions: versions() })}\n`
      : `${tableOf(divergence, bytes, keptShare, nameOf(kvCacheDtype, kvEviction))}\n`,
  );
}

/** @example nameOf("f16", { policy: "snapkv", budget: { share: 0.25 } }) // "f16, snapkv:25%" */
const nameOf = (type: KvType, eviction: EvictionOptions | undefined): string =>
  eviction === undefined ? type : `${type}, ${evictionText(eviction)}`;

function tableOf(
  divergence: Divergence,
  bytes: { readonly reference: number; readonly tested: number },
  keptShare: number,
  tested: string,
) {
  const { numTokens, meanKl, p99Kl, maxKl, sameTop, referencePerplexity, testedPerplexity } = divergence;
  return formatTable([
    ["", REFERENCE, tested],
    ["KV bytes per token", String(bytes.reference), String(bytes.tested)],
    ["entries kept until a window's end", "100.0 %", `${(100 * keptShare).toFixed(1)} %`],
    ["sequences in the same memory", "1.00 ×", `${(bytes.reference / bytes.tested / keptShare).toFixed(2)} ×`],
    ["perplexity", referencePerplexity.toFixed(4), testedPerplexity.toFixed(4)],
    ["KL divergence, mean (nats)", "", meanKl.toFixed(6)],
    ["  p99", "", p99Kl?.toFixed(6) ?? "too few tokens"],
    ["  greatest", "", maxKl.toFixed(6)],
    ["same likeliest token", "", `${(100 * sameTop).toFixed(2)} %`],
    ["tokens", String(numTokens), String(numTokens)],
  ]);
}
