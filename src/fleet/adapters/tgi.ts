/**
 * Hugging Face's Text Generation Inference: `text-generation-launcher`. Flags and names are those of its documentation.
 */
import { join } from "node:path";
import type { Adapter } from "./adapter.js";
import { askForJson, countOrNothing } from "./engine-http.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom, renamed } from "./flags.js";
import { type MetricNames, metricsByName } from "./prometheus.js";

const FLAGS: FlagTable = {
  model: "--model-id",
  maxModelLen: "--max-total-tokens",
  maxNumSeqs: "--max-batch-size",
  maxNumBatchedTokens: "--max-batch-prefill-tokens",
  kvCacheDtype: renamed("--kv-cache-dtype", { fp8: "fp8_e4m3fn", fp8_e4m3: "fp8_e4m3fn" }),
  quantization: "--quantize",
  tensorParallelSize: "--num-shard",
  gpuMemoryUtilization: "--cuda-memory-fraction",
  speculativeConfig: ({ num_speculative_tokens: depth }) => ["--speculate", String(depth ?? 2)],
  // TGI accepts any model name.
  servedModelName: elsewhere,
  enablePrefixCaching: elsewhere,
  threads: elsewhere,
  apiKey: elsewhere,
};

const METRICS: MetricNames = {
  numRunning: ["tgi_batch_current_size"],
  numWaiting: ["tgi_queue_size"],
  kvUsage: [],
  promptTokens: ["tgi_request_input_length_sum"],
  generationTokens: ["tgi_request_generated_tokens_sum"],
  prefixQueries: [],
  prefixHits: [],
  preemptions: [],
  draftTokens: [],
  acceptedTokens: [],
};

export const tgi: Adapter = {
  name: "tgi",
  program: ["text-generation-launcher"],
  launch(options, program, { host, port, sparePorts, folder }) {
    const { args, notices } = flagsFrom("tgi", options, FLAGS);
    const [masterPort, prometheusPort] = sparePorts;
    return {
      command: [
        ...program,
        "--hostname",
        host,
        "--port",
        String(port),
        // The default port is fixed, so two instances on one machine would collide.
        "--master-port",
        String(masterPort),
        "--shard-uds-path",
        join(folder, "shard"),
        ...args,
      ],
      env: envFrom({
        API_KEY: options.apiKey,
        OMP_NUM_THREADS: options.threads,
        // Versions before 3 have no flag for this port.
        PROMETHEUS_PORT: prometheusPort,
        PREFIX_CACHING: options.enablePrefixCaching === undefined ? undefined : Number(options.enablePrefixCaching),
      }),
      modelName: undefined,
      // The launcher and its shards keep their sockets in it.
      needsFolder: true,
      notices,
    };
  },
  healthPath: "/health",
  metricsPath: "/metrics",
  cacheScope: [],
  turnsCacheOff: true,
  parseMetrics: (text) => metricsByName(text, METRICS),
  async capacity(target, signal) {
    const info = await askForJson(target, "/info", signal);
    return {
      seats: countOrNothing(info.max_batch_size),
      kvTokens: countOrNothing(info.max_batch_total_tokens),
      blockSize: undefined,
    };
  },
};
