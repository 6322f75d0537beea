/**
 * SGLang: `python -m sglang.launch_server`. Flags and names are those of 0.5.23. Its health check generates a token
 * when the engine is idle, and its gauges follow a running batch every forty steps (`--decode-log-interval`).
 */

import type { CommonEngineOptions } from "../upstream/engine.js";
import type { Adapter } from "./adapter.js";
import { askEngine, askForJson, askForText, countOrNothing } from "./engine-http.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom, onlyIf, renamed } from "./flags.js";
import { type MetricNames, metricsByName } from "./prometheus.js";

/** vLLM's methods under SGLang's names. */
const ALGORITHMS: Readonly<Record<string, string>> = {
  ngram: "NGRAM",
  eagle: "EAGLE",
  eagle3: "EAGLE3",
  mtp: "NEXTN",
  draft_model: "STANDALONE",
};

const FLAGS: FlagTable = {
  model: "--model-path",
  servedModelName: "--served-model-name",
  maxModelLen: "--context-length",
  maxNumSeqs: (count, options) => ["--max-running-requests", String(count * attentionGroups(options))],
  // SGLang's --max-prefill-tokens bounds how many prompts begin together, not the length of a step.
  maxNumBatchedTokens: (count, options) => ["--chunked-prefill-size", String(count * attentionGroups(options))],
  kvCacheDtype: renamed("--kv-cache-dtype", { fp8: "fp8_e4m3" }),
  quantization: "--quantization",
  tensorParallelSize: (width, options) => ["--tp-size", String(width * attentionGroups(options))],
  dataParallelSize: (size, options) => [
    "--dp-size",
    String(size),
    ...(attentionGroups(options) > 1 ? ["--enable-dp-attention"] : []),
  ],
  enableExpertParallel: (on, { tensorParallelSize = 1, dataParallelSize = 1 }) =>
    on ? ["--ep-size", String(tensorParallelSize * dataParallelSize)] : [],
  gpuMemoryUtilization: "--mem-fraction-static",
  enablePrefixCaching: onlyIf("--disable-radix-cache", false),
  speculativeConfig: speculation,
  schedulingPolicy: (policy) =>
    policy === "priority"
      ? // As in vLLM, the lower number goes first, and a request without one has 0.
        ["--enable-priority-scheduling", "--schedule-low-priority-values-first", "--default-priority-value", "0"]
      : ["--schedule-policy", policy],
  enableSleepMode: onlyIf("--enable-memory-saver", true),
  threads: elsewhere,
  apiKey: "--api-key",
};

/**
 * SGLang divides its limits among groups that share experts, as parts of one width. Groups that share nothing are
 * copies, and each copy has the full limits.
 */
const attentionGroups = ({ enableExpertParallel, dataParallelSize = 1 }: CommonEngineOptions): number =>
  enableExpertParallel === true ? dataParallelSize : 1;

/**
 * SGLang takes depth, width and size of the draft: a chain of k tokens is k steps of one branch, and k + 1 tokens
 * including the last verified one.
 */
function speculation(config: NonNullable<CommonEngineOptions["speculativeConfig"]>): readonly string[] {
  const { method, model, num_speculative_tokens: numTokens } = config;
  const algorithm = typeof method === "string" ? (ALGORITHMS[method] ?? method.toUpperCase()) : "STANDALONE";
  const depth = typeof numTokens === "number" ? numTokens : undefined;
  return [
    "--speculative-algorithm",
    algorithm,
    ...(typeof model === "string" ? ["--speculative-draft-model-path", model] : []),
    ...(depth === undefined
      ? []
      : ["--speculative-num-draft-tokens", String(algorithm === "NGRAM" ? depth : depth + 1)]),
    ...(depth === undefined || algorithm === "NGRAM"
      ? []
      : ["--speculative-num-steps", String(depth), "--speculative-eagle-topk", "1"]),
  ];
}

/** With priorities, SGLang reports the requests of each priority beside the total, whose priority label is empty. */
const OF_ONE_PRIORITY = /^sglang:num_(?:running|queue)_reqs\{.*\bpriority="[^"]+".*$/gm;

const METRICS: MetricNames = {
  numRunning: ["sglang:num_running_reqs"],
  numWaiting: ["sglang:num_queue_reqs"],
  kvUsage: ["sglang:token_usage"],
  promptTokens: ["sglang:prompt_tokens_total"],
  generationTokens: ["sglang:generation_tokens_total"],
  prefixQueries: ["sglang:prompt_tokens_total"],
  prefixHits: ["sglang:cached_tokens_total"],
  preemptions: ["sglang:num_retracted_requests_total"],
  draftTokens: [],
  acceptedTokens: [],
  interTokenTimes: ["sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"],
};

export const sglang: Adapter = {
  name: "sglang",
  program: ["python3", "-m", "sglang.launch_server"],
  launch(options, program, { host, port }) {
    const { args, notices } = flagsFrom("sglang", options, FLAGS);
    return {
      command: [...program, "--host", host, "--port", String(port), "--enable-metrics", ...args],
      env: envFrom({ OMP_NUM_THREADS: options.threads }),
      modelName: options.servedModelName,
      notices,
    };
  },
  healthPath: "/health",
  metricsPath: "/metrics",
  // SGLang's messages and embeddings have no `cache_salt`.
  cacheScope: ["/v1/chat/completions", "/v1/completions", "/v1/responses"],
  turnsCacheOff: true,
  sharesDrafts: ({ method }) => method === "ngram",
  parseMetrics: (text) => metricsByName(text.replace(OF_ONE_PRIORITY, ""), METRICS),
  async capacity(target, signal) {
    const info = await askForJson(target, "/server_info", signal).catch(() =>
      // The older name of the path.
      askForJson(target, "/get_server_info", signal),
    );
    return {
      seats: countOrNothing(info.max_running_requests),
      kvTokens: countOrNothing(info.max_total_num_tokens),
      blockSize: countOrNothing(info.page_size),
    };
  },
  sleep: async (target, signal) => void (await askForText(target, "/release_memory_occupation", signal, {})),
  wake: async (target, signal) => void (await askForText(target, "/resume_memory_occupation", signal, {})),
  /** SGLang identifies a request by the `rid` in its body. */
  abort: async (target, requestId) =>
    void (await askEngine(target, "/abort_request", AbortSignal.timeout(5000), { rid: requestId })),
};
