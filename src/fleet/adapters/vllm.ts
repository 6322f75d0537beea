/** vLLM (V1): `vllm serve`. Flags and names are those of 0.33.0. vLLM aborts a request when its connection closes. */
import { join, resolve } from "node:path";
import { isLoopback } from "../../core/loopback.js";
import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { CacheEventSockets } from "../upstream/upstream.js";
import type { Adapter } from "./adapter.js";
import { followZmq } from "./cache-events/zmq-events.js";
import { askForText, askTemplateTokens, countOrNothing } from "./engine-http.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom, onlyIf } from "./flags.js";
import { metricsByName, PrometheusText, vllmMetricNames } from "./prometheus.js";

const FLAGS: FlagTable = {
  model: elsewhere,
  servedModelName: "--served-model-name",
  maxModelLen: "--max-model-len",
  maxNumSeqs: "--max-num-seqs",
  maxNumBatchedTokens: "--max-num-batched-tokens",
  kvCacheDtype: "--kv-cache-dtype",
  kvCacheMemoryBytes: "--kv-cache-memory-bytes",
  quantization: "--quantization",
  tensorParallelSize: "--tensor-parallel-size",
  dataParallelSize: "--data-parallel-size",
  enableExpertParallel: (on) => [on ? "--enable-expert-parallel" : "--no-enable-expert-parallel"],
  gpuMemoryUtilization: "--gpu-memory-utilization",
  enablePrefixCaching: (on) => [on ? "--enable-prefix-caching" : "--no-enable-prefix-caching"],
  speculativeConfig: "--speculative-config",
  schedulingPolicy: "--scheduling-policy",
  enableSleepMode: onlyIf("--enable-sleep-mode", true),
  threads: elsewhere,
  apiKey: elsewhere,
};

const METRICS = vllmMetricNames("vllm:");

/** Longest path of a Unix socket, without its final zero. */
const MAX_SOCKET_PATH = 107;

/**
 * Unix sockets in the instance's own folder. vLLM binds TCP addresses only on all interfaces, where anybody could read
 * them.
 */
function socketsIn(folder: string): CacheEventSockets | undefined {
  const paths = ["cache-events.sock", "cache-replay.sock"].map((name) => join(resolve(folder), name));
  if (paths.some((path) => Buffer.byteLength(path) > MAX_SOCKET_PATH)) return undefined;
  return { events: `ipc://${paths[0]}`, replay: `ipc://${paths[1]}` };
}

const eventConfig = ({ events, replay }: CacheEventSockets): string =>
  JSON.stringify({ enable_kv_cache_events: true, publisher: "zmq", endpoint: events, replay_endpoint: replay });

async function* nothing(): AsyncGenerator<CachedBlocks> {}

export const vllm: Adapter = {
  name: "vllm",
  program: ["vllm", "serve"],
  launch(options, program, { host, port, folder, followsCache }) {
    const { args, notices: flagNotices } = flagsFrom("vllm", options, FLAGS);
    const notices = [...flagNotices];
    const isFollowed = followsCache === true && options.enablePrefixCaching !== false;
    const cacheEvents = isFollowed ? socketsIn(folder) : undefined;
    if (isFollowed && cacheEvents === undefined) {
      notices.push(`the paths of vLLM's cache events in ${folder} are longer than a Unix socket's: routing guesses`);
    }
    if (options.enableSleepMode === true && !isLoopback(host)) {
      notices.push(`vllm's sleep mode opens its development endpoints to everybody who can reach ${host}`);
    }
    const eventArgs = cacheEvents === undefined ? [] : ["--kv-events-config", eventConfig(cacheEvents)];
    return {
      command: [...program, options.model, "--host", host, "--port", String(port), ...args, ...eventArgs],
      needsFolder: cacheEvents !== undefined,
      ...(cacheEvents === undefined ? {} : { cacheEvents }),
      env: envFrom({
        VLLM_API_KEY: options.apiKey,
        OMP_NUM_THREADS: options.threads,
        // On CPUs, vLLM replaces this number by one thread for each bound core except one, unless it binds no cores.
        VLLM_CPU_OMP_THREADS_BIND: options.threads === undefined ? undefined : "nobind",
        // Opens /sleep, /wake_up and other endpoints that only the fleet may reach: the API key guards /v1 alone.
        VLLM_SERVER_DEV_MODE: options.enableSleepMode === true ? 1 : undefined,
      }),
      modelName: options.servedModelName ?? options.model,
      notices,
    };
  },
  healthPath: "/health",
  metricsPath: "/metrics",
  cacheScope: [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v2/rerank",
    "/rerank",
    "/score",
  ],
  turnsCacheOff: true,
  followCache: ({ cacheEvents }, signal) => (cacheEvents === undefined ? nothing() : followZmq(cacheEvents, signal)),
  sharesDrafts: ({ method, suffix_decoding_max_cached_requests: numCached }) => method === "suffix" && numCached !== 0,
  parseMetrics: (text) => metricsByName(text, METRICS),
  async capacity(target, signal) {
    const [text, templateTokens] = await Promise.all([
      askForText(target, "/metrics", signal),
      askTemplateTokens(target, signal),
    ]);
    const metrics = new PrometheusText(text);
    const config = (label: string) => countOrNothing(metrics.label("vllm:cache_config_info", label));
    const blockSize = config("block_size");
    const numBlocks = config("num_gpu_blocks");
    const product = blockSize === undefined || numBlocks === undefined ? undefined : blockSize * numBlocks;
    return {
      seats: undefined,
      // Newer versions report the size: models with several kinds of attention hold fewer tokens than the product.
      kvTokens: config("kv_cache_size_tokens") ?? product,
      blockSize: config("hash_block_size") ?? blockSize,
      templateTokens,
    };
  },
  // Level 1 moves the weights to host memory and drops the prefix cache.
  sleep: async (target, signal) => void (await askForText(target, "/sleep?level=1", signal, {})),
  wake: async (target, signal) => void (await askForText(target, "/wake_up", signal, {})),
};
