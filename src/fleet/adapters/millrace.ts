/** Our own engine, run as a separate process: `millrace engine`. */
import { join } from "node:path";
import { packageRoot } from "../../core/package-root.js";
import type { Adapter } from "./adapter.js";
import { followEventStream } from "./cache-events/event-stream.js";
import { askForText, askTemplateTokens, countOrNothing } from "./engine-http.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom } from "./flags.js";
import { type MetricNames, metricsByName, PrometheusText, vllmMetricNames } from "./prometheus.js";

const FLAGS: FlagTable = {
  model: "--model",
  servedModelName: "--served-model-name",
  maxModelLen: "--max-model-len",
  maxNumSeqs: "--max-num-seqs",
  maxNumBatchedTokens: "--max-num-batched-tokens",
  quantization: "--quantization",
  kvCacheDtype: "--kv-cache-dtype",
  kvCacheMemoryBytes: "--kv-cache-memory-bytes",
  enablePrefixCaching: (on) => [on ? "--enable-prefix-caching" : "--no-enable-prefix-caching"],
  speculativeConfig: "--speculative-config",
  schedulingPolicy: "--scheduling-policy",
  threads: "--threads",
  apiKey: elsewhere,
};

const METRICS: MetricNames = {
  ...vllmMetricNames("millrace:"),
  evictedTokens: ["millrace:kv_evicted_tokens_total"],
  stepSeconds: ["millrace:engine_step_seconds_total"],
  promptSeconds: ["millrace:engine_prompt_seconds_total"],
  kernelSeconds: ["millrace:engine_kernel_seconds_total"],
  residentBytes: ["process_resident_memory_bytes"],
};

export const millrace: Adapter = {
  name: "millrace",
  program: [process.execPath, join(packageRoot(), "bin/millrace.js"), "engine"],
  launch(options, program, { host, port }) {
    const { args, notices } = flagsFrom("millrace", options, FLAGS);
    return {
      command: [...program, "--host", host, "--port", String(port), ...args],
      // Every user of the machine can read a command line, so the key goes into the environment.
      env: envFrom({ MILLRACE_API_KEY: options.apiKey }),
      modelName: options.servedModelName,
      notices,
    };
  },
  healthPath: "/health",
  metricsPath: "/metrics",
  followCache: (target, signal) => followEventStream(target, "/kv_events", signal),
  cacheScope: "header",
  parseMetrics: (text) => metricsByName(text, METRICS),
  async capacity(target, signal) {
    const [text, templateTokens] = await Promise.all([
      askForText(target, "/metrics", signal),
      askTemplateTokens(target, signal),
    ]);
    const metrics = new PrometheusText(text);
    const config = (label: string) => countOrNothing(metrics.label("millrace:cache_config_info", label));
    const blockSize = config("block_size");
    const numBlocks = config("num_kv_blocks");
    return {
      seats: config("max_num_seqs"),
      kvTokens: blockSize === undefined || numBlocks === undefined ? undefined : blockSize * numBlocks,
      blockSize,
      templateTokens,
    };
  },
};
