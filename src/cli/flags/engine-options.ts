/** The engine's flags, shared by every command that starts one: vLLM's names for flags that vLLM has. */

import { join } from "node:path";
import { type Command, Option } from "commander";
import { ACTIVATION_DTYPES } from "../../backend/backend.js";
import { KV_TYPES } from "../../backend/ops.js";
import { batchedTokensRule, defaultBatchedTokens } from "../../core/batched-tokens.js";
import { cacheFolder, packFolder } from "../../core/cache-folder.js";
import { allowedCpus, cpuCores, defaultNumThreads, parseCpuList } from "../../core/cpu.js";
import { optionError } from "../../core/option-error.js";
import { EVICTION_POLICIES, type EvictionOptions } from "../../engine/api/kv-eviction.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions, SCHEDULING_POLICIES } from "../../engine/api/options.js";
import type { SpeculativeConfig } from "../../engine/api/speculative-config.js";
import type { EngineSettings } from "../../local/start-engine.js";
import { POOLINGS } from "../../model/description/pooling.js";
import { createHelp, helpWidth } from "../output/help-format.js";
import { byteSize, byteSizeOrZero, integerIn, numberIn, oneOf } from "./option-values.js";
import { parseSpeculativeConfig } from "./speculative-config.js";

const DEFAULT_PACK_CACHE_BYTES = 50 * 2 ** 30;
const MANY = Number.MAX_SAFE_INTEGER;

/** Flags as commander returns them, each value parsed. */
export interface EngineFlags {
  readonly threads?: number;
  readonly cpuAffinity?: readonly number[];
  readonly maxModelLen?: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens?: number;
  readonly blockSize: number;
  readonly activationDtype: EngineOptions["activationDtype"];
  readonly kvCacheDtype: "auto" | "fp8" | EngineSettings["kvCacheDtype"];
  readonly kvEviction: EngineOptions["kvEviction"];
  readonly kvCacheMemoryBytes?: number;
  readonly packCacheSize: number;
  readonly enablePrefixCaching: boolean;
  readonly prefixCacheDisk?: number;
  readonly shareKvReads: boolean;
  readonly enableChunkedPrefill: boolean;
  readonly schedulingPolicy: EngineOptions["schedulingPolicy"];
  readonly maxStepMs: EngineOptions["maxStepMs"];
  readonly batching: EngineOptions["batching"];
  readonly kvLayout: EngineOptions["kvLayout"];
  readonly pooling: EngineOptions["pooling"];
  readonly maxWaitingRequests: number;
  readonly speculativeConfig?: SpeculativeConfig;
}

/** Commander parses only given text: the default is a parsed value. */
function option<T>(flags: string, description: string, parse: (text: string) => T, defaultValue?: T): Option {
  const made = new Option(flags, description).argParser(parse).helpGroup("Engine:");
  return defaultValue === undefined ? made : made.default(defaultValue);
}

function toggle(flags: string, description: string, defaultValue?: boolean): Option {
  const made = new Option(flags, description).helpGroup("Engine:");
  return defaultValue === undefined ? made : made.default(defaultValue);
}

export function addEngineOptions(command: Command): Command {
  const defaults = DEFAULT_ENGINE_OPTIONS;
  const options = [
    option("--threads <n>", "kernel threads (default: one per physical core)", integerIn("--threads", 1, 1024)),
    option(
      "--cpu-affinity <list>",
      "CPUs to pin the kernel threads to, such as 0-3,8; also sets the number of threads, unless --threads is given; divided among --instances",
      cpuList("--cpu-affinity"),
    ),
    option(
      "--max-model-len <n>",
      "longest sequence in tokens, prompt and answer together (default: the model's context)",
      integerIn("--max-model-len", 1, MANY),
    ),
    option(
      "--max-num-seqs <n>",
      "most sequences in a batch",
      integerIn("--max-num-seqs", 1, 65_536),
      defaults.maxNumSeqs,
    ),
    option(
      "--max-num-batched-tokens <n>",
      `most tokens computed in one step (default: ${batchedTokensRule("sequence of --max-num-seqs")})`,
      integerIn("--max-num-batched-tokens", 1, 1 << 20),
    ),
    option(
      "--block-size <n>",
      "tokens per KV block, a multiple of 8",
      integerIn("--block-size", 8, 4096),
      defaults.blockSize,
    ),
    option(
      "--kv-cache-dtype <type>",
      "f16, f32, int8 (half of f16, slightly lossy), fp8_e4m3 (or fp8) and fp8_e5m2 (half, lossier), fp4 (2/7, lossiest), auto (f16), or measured: the smallest that hardly changes this model's predictions, measured at its first start",
      oneOf("--kv-cache-dtype", ["auto", "measured", "fp8", ...KV_TYPES]),
      defaults.kvCacheDtype,
    ),
    option(
      "--kv-eviction <policy:budget>",
      `drop keys and values of long texts, which changes answers: ${EVICTION_POLICIES.join(", ")}; with a budget in tokens or a share of the text, such as snapkv:25% or window:4096`,
      evictionOf("--kv-eviction"),
    ),
    option(
      "--activation-dtype <type>",
      "auto: integers for quantised weights (16-bit for Q8_0 and INT8, else 8-bit), bfloat16 for BF16 and FP8 where the CPU has AVX-512 BF16 and VBMI; int8: as auto, with 8-bit for Q8_0 and INT8 too; f32: not rounded, several times slower",
      oneOf("--activation-dtype", ACTIVATION_DTYPES),
      defaults.activationDtype,
    ),
    option(
      "--kv-cache-memory-bytes <size>",
      "KV memory, such as 8GiB (default: enough for --max-num-seqs, at most a quarter of the free memory)",
      byteSize("--kv-cache-memory-bytes"),
    ),
    option(
      "--pack-cache-size <size>",
      "disk space for packed weights, which make later starts faster; 0 = none",
      byteSizeOrZero("--pack-cache-size"),
      DEFAULT_PACK_CACHE_BYTES,
    ).default(DEFAULT_PACK_CACHE_BYTES, "50GiB"),
    toggle("--enable-prefix-caching", "reuse the KV blocks of equal prefixes", defaults.enablePrefixCaching),
    toggle("--no-enable-prefix-caching", "compute every prompt in full"),
    option(
      "--prefix-cache-disk <size>",
      "disk space for cached prefixes beyond memory and across restarts, such as 8GiB (default: none)",
      byteSize("--prefix-cache-disk"),
    ),
    toggle("--share-kv-reads", "read shared KV blocks once per step", defaults.shareKvReads),
    toggle("--no-share-kv-reads", "read shared KV blocks once per sequence"),
    toggle("--enable-chunked-prefill", "split long prompts over several steps", defaults.enableChunkedPrefill),
    toggle("--no-enable-chunked-prefill", "compute each prompt in one step"),
    option(
      "--scheduling-policy <policy>",
      "order of requests: fcfs, priority (lowest number first), or fair (least-served API key first)",
      oneOf("--scheduling-policy", SCHEDULING_POLICIES),
      defaults.schedulingPolicy,
    ),
    option(
      "--max-step-ms <ms>",
      "longest step, in milliseconds, when prompts are computed beside decoding sequences; auto: 1.6 times a step of decoding alone; 0: unlimited, for most throughput",
      autoOr(numberIn("--max-step-ms", 0, 3_600_000)),
      defaults.maxStepMs,
    ),
    option(
      "--batching <kind>",
      "continuous; static: no sequence is admitted while a batch runs",
      oneOf("--batching", ["continuous", "static"]),
      defaults.batching,
    ),
    option(
      "--kv-layout <kind>",
      "paged; contiguous: memory for the longest sequence is reserved for each sequence",
      oneOf("--kv-layout", ["paged", "contiguous"]),
      defaults.kvLayout,
    ),
    option(
      "--pooling <kind>",
      "pooling of /v1/embeddings: mean, last, cls (the first), or auto (the model's own, else mean of encoders and last of others)",
      oneOf("--pooling", ["auto", ...POOLINGS]),
      defaults.pooling,
    ),
    option(
      "--max-waiting-requests <n>",
      "most waiting requests; further requests get 429",
      integerIn("--max-waiting-requests", 0, 1 << 20),
      defaults.maxWaitingRequests,
    ),
    option(
      "--speculative-config <json>",
      'speculative decoding, such as {"method":"ngram","num_speculative_tokens":8}; methods: auto, ngram, suffix, mtp, draft_model, heads, medusa, eagle3, none',
      parseSpeculativeConfig,
    ),
  ];
  for (const each of options) command.addOption(each);
  return command;
}

/** Flags that a single user is likely to change. */
const COMMON = ["--threads", "--max-model-len", "--kv-cache-dtype", "--kv-cache-memory-bytes", "--speculative-config"];

/** The same flags; the help lists only the common ones. */
export function addCommonEngineOptions(command: Command): Command {
  addEngineOptions(command);
  for (const each of command.options) {
    if (each.helpGroupHeading === "Engine:" && !COMMON.includes(each.long ?? "")) each.hideHelp();
  }
  const others = "The command takes all engine flags of `millrace serve`; its --help lists them.";
  return command.addHelpText("after", () => `\n${createHelp().boxWrap(others, helpWidth())}`);
}

const autoOr =
  <T>(parse: (text: string) => T) =>
  (text: string): T | "auto" =>
    text === "auto" ? text : parse(text);

/** @example evictionOf("--kv-eviction")("snapkv:25%") // { policy: "snapkv", budget: { share: 0.25 } } */
export function evictionOf(flag: string): (text: string) => EvictionOptions {
  const wanted = `a policy and a budget, such as snapkv:25% or window:4096 (policies: ${EVICTION_POLICIES.join(", ")}; 1% to 99%, or 1 to 2^31 tokens)`;
  return (text) => {
    const [, name, digits = "", percent] = /^([a-z]+):(\d{1,10})(%?)$/.exec(text) ?? [];
    const policy = EVICTION_POLICIES.find((each) => each === name);
    const amount = Number(digits);
    const isInRange = amount >= 1 && amount <= (percent === "%" ? 99 : 2 ** 31);
    if (policy === undefined || !isInRange) throw optionError(flag, wanted, text);
    return { policy, budget: percent === "%" ? { share: amount / 100 } : { tokens: amount } };
  };
}

/** A list of distinct CPUs that this process may run on. */
function cpuList(flag: string, allowed: readonly number[] = allowedCpus()): (text: string) => readonly number[] {
  return (text) => {
    const cpus = [...new Set(parseCpuList(text))];
    const isList = /^\s*\d+(-\d+)?\s*(,\s*\d+(-\d+)?\s*)*$/.test(text) && cpus.length > 0;
    if (isList && cpus.every((cpu) => allowed.includes(cpu))) return cpus;
    throw optionError(flag, `a list of CPUs among ${allowed.join(",") || "none (not Linux)"}`, text);
  };
}

export function kvTypeOf<Flag extends EngineFlags["kvCacheDtype"]>(flag: Flag) {
  if (flag === "auto") return DEFAULT_ENGINE_OPTIONS.kvCacheDtype;
  // With vLLM's meaning.
  return flag === "fp8" ? "fp8_e4m3" : (flag as Exclude<Flag, "auto" | "fp8">);
}

/** @param speculative the default of --speculative-config */
export function engineSettingsFrom(
  flags: EngineFlags,
  speculative: SpeculativeConfig = DEFAULT_ENGINE_OPTIONS.speculative,
): EngineSettings {
  return {
    numThreads: flags.threads ?? flags.cpuAffinity?.length ?? defaultNumThreads(cpuCores()),
    cpuAffinity: flags.cpuAffinity,
    maxModelLen: flags.maxModelLen,
    maxNumSeqs: flags.maxNumSeqs,
    maxNumBatchedTokens: flags.maxNumBatchedTokens ?? defaultBatchedTokens(flags.maxNumSeqs),
    blockSize: flags.blockSize,
    kvCacheDtype: kvTypeOf(flags.kvCacheDtype),
    kvEviction: flags.kvEviction,
    activationDtype: flags.activationDtype,
    packCache: flags.packCacheSize === 0 ? undefined : { folder: packFolder(), maxBytes: flags.packCacheSize },
    kvCacheMemoryBytes: flags.kvCacheMemoryBytes,
    enablePrefixCaching: flags.enablePrefixCaching,
    prefixCacheDisk:
      flags.prefixCacheDisk === undefined
        ? undefined
        : { folder: join(cacheFolder(), "prefixes"), maxBytes: flags.prefixCacheDisk },
    shareKvReads: flags.shareKvReads,
    enableChunkedPrefill: flags.enableChunkedPrefill,
    schedulingPolicy: flags.schedulingPolicy,
    maxStepMs: flags.maxStepMs,
    batching: flags.batching,
    kvLayout: flags.kvLayout,
    pooling: flags.pooling,
    maxWaitingRequests: flags.maxWaitingRequests,
    speculative: flags.speculativeConfig ?? speculative,
  };
}
