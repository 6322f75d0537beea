/**
 * NVIDIA TensorRT-LLM: `trtllm-serve`, with a YAML file for options that have no flag. Its PyTorch backend loads a
 * model as it is; with `buildEngine`, `trtllm-build` compiles it for the GPU first, and the TensorRT backend loads the
 * result. Flags and names are those of its source (1.3).
 */
import { join } from "node:path";
import { stringify } from "yaml";
import type { CommonEngineOptions } from "../upstream/engine.js";
import type { Adapter, EngineBuild } from "./adapter.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom } from "./flags.js";
import { type MetricNames, metricsByName } from "./prometheus.js";

const FLAGS: FlagTable = {
  model: elsewhere,
  // No such flag exists: the served name is the last part of the model's path.
  servedModelName: elsewhere,
  maxModelLen: "--max_seq_len",
  maxNumSeqs: "--max_batch_size",
  maxNumBatchedTokens: "--max_num_tokens",
  tensorParallelSize: (width, { dataParallelSize = 1 }) => ["--tp_size", String(width * dataParallelSize)],
  // The YAML holds the attention groups, one for each GPU.
  dataParallelSize: elsewhere,
  enableExpertParallel: (on, { tensorParallelSize = 1, dataParallelSize = 1 }) =>
    on ? ["--ep_size", String(tensorParallelSize * dataParallelSize)] : [],
  gpuMemoryUtilization: elsewhere,
  kvCacheDtype: elsewhere,
  kvCacheMemoryBytes: elsewhere,
  enablePrefixCaching: elsewhere,
  speculativeConfig: elsewhere,
  threads: elsewhere,
  buildEngine: elsewhere,
};

/** One GPU for each rank: tensor parallel times pipeline parallel. */
function ranksOf({ tensorParallelSize: tp = 1, buildEngine }: CommonEngineOptions) {
  const pp = buildEngine?.pipelineParallelSize ?? 1;
  return { pp, shape: ["--tp_size", String(tp), "--pp_size", String(pp)], ranks: [...Array(tp * pp).keys()] };
}

/** convert_checkpoint.py and quantize.py write a checkpoint; `trtllm-build` compiles one engine for each rank. */
function buildOf(options: CommonEngineOptions): EngineBuild | undefined {
  const { buildEngine, maxModelLen, maxNumSeqs, maxNumBatchedTokens } = options;
  if (buildEngine === undefined) return undefined;
  const { convert, program = [], args = [] } = buildEngine;
  const { shape, ranks } = ranksOf(options);
  const [builder = "trtllm-build", ...builderArgs] = program;
  const sizes = Object.entries({
    "--max_seq_len": maxModelLen,
    "--max_batch_size": maxNumSeqs,
    "--max_num_tokens": maxNumBatchedTokens,
    "--workers": ranks.length,
  }).flatMap(([flag, value]) => (value === undefined ? [] : [flag, String(value)]));
  const engine: EngineBuild["steps"][number] = {
    name: "engine",
    command: (checkpoint, into) => [
      builder,
      ...builderArgs,
      "--checkpoint_dir",
      checkpoint,
      "--output_dir",
      into,
      ...sizes,
      ...args,
    ],
    files: ["config.json", ...ranks.map((rank) => `rank${rank}.engine`)],
  };
  const versionCommand = [builder, ...builderArgs, "--version"] as const;
  const [converter, ...converterArgs] = convert ?? [];
  if (converter === undefined) return { versionCommand, steps: [engine] };
  const checkpoint: EngineBuild["steps"][number] = {
    name: "checkpoint",
    command: (model, into) => [converter, ...converterArgs, "--model_dir", model, "--output_dir", into, ...shape],
    files: ["config.json", ...ranks.map((rank) => `rank${rank}.safetensors`)],
  };
  return { versionCommand, steps: [checkpoint, engine] };
}

/** vLLM's methods under TensorRT-LLM's names. */
const DECODING_TYPES: Readonly<Record<string, string>> = {
  ngram: "NGram",
  eagle: "Eagle",
  eagle3: "Eagle3",
  mtp: "MTP",
  draft_model: "DraftTarget",
  suffix: "SA",
};

function yamlConfig(options: CommonEngineOptions): string {
  const { kvCacheDtype, kvCacheMemoryBytes, enablePrefixCaching, speculativeConfig, gpuMemoryUtilization } = options;
  const { dataParallelSize = 1 } = options;
  const { method, model, num_speculative_tokens: depth } = speculativeConfig ?? {};
  const kvCache = {
    // This section overrides the flag of the memory fraction, so the fraction goes here.
    ...(gpuMemoryUtilization === undefined ? {} : { free_gpu_memory_fraction: gpuMemoryUtilization }),
    ...(kvCacheDtype === undefined ? {} : { dtype: kvCacheDtype }),
    ...(kvCacheMemoryBytes === undefined ? {} : { max_gpu_total_bytes: kvCacheMemoryBytes }),
    ...(enablePrefixCaching === undefined ? {} : { enable_block_reuse: enablePrefixCaching }),
  };
  return stringify({
    // TensorRT-LLM publishes metrics only if both are on.
    return_perf_metrics: true,
    enable_iter_perf_stats: true,
    ...(dataParallelSize === 1 ? {} : { enable_attention_dp: true }),
    ...(Object.keys(kvCache).length === 0 ? {} : { kv_cache_config: kvCache }),
    ...(speculativeConfig === undefined
      ? {}
      : {
          speculative_config: {
            decoding_type: DECODING_TYPES[String(method ?? "draft_model")] ?? method,
            ...(depth === undefined ? {} : { max_draft_len: depth }),
            ...(model === undefined ? {} : { speculative_model: model }),
            // By default, lookups draft from the texts of all requests, including those of other tenants.
            ...(method === "ngram" ? { is_public_pool: false } : {}),
          },
        }),
  });
}

const METRICS: MetricNames = {
  numRunning: ["trtllm_num_requests_running"],
  numWaiting: ["trtllm_num_requests_waiting"],
  kvUsage: ["trtllm_kv_cache_utilization"],
  promptTokens: ["trtllm_prompt_tokens_total"],
  generationTokens: ["trtllm_generation_tokens_total"],
  // TensorRT-LLM counts these in blocks of an unreported size.
  prefixQueries: [],
  prefixHits: [],
  preemptions: [],
  draftTokens: [],
  acceptedTokens: [],
};

export const tensorrtLlm: Adapter = {
  name: "tensorrt-llm",
  program: ["trtllm-serve"],
  build: buildOf,
  launch(options, program, { host, port, folder, built }) {
    const { args, notices } = flagsFrom("tensorrt-llm", options, FLAGS);
    const file = join(folder, "trtllm.yaml");
    const loaded = built ?? options.model;
    const builtArgs =
      built === undefined
        ? []
        : ["--backend", "tensorrt", "--tokenizer", options.model, "--pp_size", String(ranksOf(options).pp)];
    return {
      command: [
        ...program,
        loaded,
        "--host",
        host,
        "--port",
        String(port),
        // Newer versions call it --config and keep this name as an alias.
        "--extra_llm_api_options",
        file,
        ...builtArgs,
        ...args,
      ],
      env: envFrom({ OMP_NUM_THREADS: options.threads }),
      files: { [file]: yamlConfig(options) },
      modelName: loaded.split("/").at(-1),
      notices,
    };
  },
  healthPath: "/health",
  // /metrics returns JSON, and each read clears it.
  metricsPath: "/prometheus/metrics",
  cacheScope: ["/v1/chat/completions"],
  turnsCacheOff: true,
  parseMetrics: (text) => metricsByName(text, METRICS),
  capacity: async () => ({ seats: undefined, kvTokens: undefined, blockSize: undefined }),
};
