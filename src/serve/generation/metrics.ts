/**
 * Prometheus metrics under vLLM V1's names with the prefix `millrace:`. This HTTP layer measures the times; the engine
 * measures the time in its queue.
 */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { LATENCY_BUCKETS_S, PART_BUCKETS_S, TOKEN_BUCKETS_S } from "../../core/latency-buckets.js";
import { nextRun } from "../../core/next-run.js";
import type { Engine } from "../../engine/api/engine.js";
import { evictionText } from "../../engine/api/kv-eviction.js";
import type { EngineRequest } from "../../engine/api/request.js";
import type { EngineStats } from "../../engine/api/stats.js";
import { registerProcessMemory } from "../../observe/process-memory.js";
import type { GenerationUpdate } from "./generation.js";

const TOKEN_COUNT_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];

type FinishedReason = "stop" | "length" | "abort" | "error";

/** Counts of tokens, and times of `performance.now()`. */
interface RequestTimes {
  readonly submittedAtMs: number;
  /** Undefined before the first tokens. */
  readonly queueMs: number | undefined;
  readonly firstTokenAtMs: number | undefined;
  readonly lastTokenAtMs: number | undefined;
  readonly numPromptTokens: number;
  readonly numCachedTokens: number;
  readonly numTokens: number;
  /** Number of drafted tokens: a step without drafts yields one token. */
  readonly numDraftTokens: number;
}

/**
 * Measures one generation. Only the first call of `onEnd` counts. Contains only numbers, so that it may outlive its
 * request.
 */
export interface RequestTimer {
  onTokens(update: Pick<GenerationUpdate, "numNewTokens" | "numCachedTokens" | "queueMs">): void;
  onEnd(reason: FinishedReason): void;
  times(): RequestTimes;
}

export interface ServeMetrics {
  startRequest(request: EngineRequest, arrivedAtMs: number): RequestTimer;
  /** Prometheus text format. */
  render(): Promise<string>;
  readonly contentType: string;
}

const GAUGES: readonly (readonly [
  name: string,
  help: string,
  value: (stats: EngineStats, engine: Engine) => number,
])[] = [
  ["num_requests_running", "Requests in the engine's batch", (stats) => stats.numRunning],
  ["num_requests_waiting", "Requests waiting for a seat", (stats) => stats.numWaiting],
  ["prefix_cache_disk_bytes", "Bytes of cached prefixes on disk", (stats) => stats.prefixCacheDisk.numBytes],
  [
    "kv_cache_usage_perc",
    "Share of the KV blocks that sequences use, 0 to 1",
    (stats, engine) => (engine.info.numKvBlocks === 0 ? 0 : stats.numUsedKvBlocks / engine.info.numKvBlocks),
  ],
];

const COUNTERS: readonly (readonly [name: string, help: string, value: (stats: EngineStats) => number])[] = [
  [
    "prefix_cache_queries_total",
    "Prompt tokens looked up in the prefix cache",
    (stats) => stats.prefixCacheQueriedTokens,
  ],
  ["prefix_cache_hits_total", "Prompt tokens found in the prefix cache", (stats) => stats.prefixCacheHitTokens],
  ["prefix_cache_disk_queries_total", "Blocks looked up on disk", (stats) => stats.prefixCacheDisk.numQueries],
  ["prefix_cache_disk_hits_total", "Blocks read back from disk", (stats) => stats.prefixCacheDisk.numHits],
  ["prefix_cache_disk_writes_total", "Blocks written to disk", (stats) => stats.prefixCacheDisk.numWritten],
  ["prefix_cache_disk_dropped_total", "Blocks that could not be written", (stats) => stats.prefixCacheDisk.numDropped],
  ["prefix_cache_disk_evictions_total", "Blocks removed from disk", (stats) => stats.prefixCacheDisk.numEvicted],
  ["kv_evicted_tokens_total", "Tokens whose keys and values were evicted", (stats) => stats.numEvictedTokens],
  ["num_preemptions_total", "Times a running request gave its blocks back", (stats) => stats.numPreemptions],
  ["prompt_tokens_total", "Prompt tokens processed", (stats) => stats.numPromptTokens],
  ["generation_tokens_total", "Tokens generated", (stats) => stats.numGenerationTokens],
  ["kv_read_bytes_total", "Bytes of K and V that attention read", (stats) => stats.kvBytesRead],
  [
    "kv_unshared_bytes_total",
    "Bytes of K and V that attention would have read without sharing",
    (stats) => stats.kvBytesUnshared,
  ],
  ["spec_decode_num_drafts_total", "Drafts that were checked", (stats) => stats.speculation.numDrafts],
  ["spec_decode_num_draft_tokens_total", "Tokens drafted", (stats) => stats.speculation.numDraftTokens],
  [
    "spec_decode_num_accepted_tokens_total",
    "Drafted tokens that were right",
    (stats) => stats.speculation.numAcceptedTokens,
  ],
  ["constrained_requests_total", "Requests whose answer must have a form", (stats) => stats.constraints.numRequests],
  ["grammar_compilations_total", "Grammars compiled", (stats) => stats.constraints.numCompiled],
  ["grammar_cache_hits_total", "Grammars that were compiled already", (stats) => stats.constraints.numCacheHits],
  ["grammar_compile_seconds_total", "Time spent on grammars", (stats) => stats.constraints.compileMs / 1000],
  ["grammar_mask_wait_seconds_total", "Time steps waited for masks", (stats) => stats.constraints.maskWaitMs / 1000],
  [
    "grammar_skipped_steps_total",
    "Times a sequence sat a step out because its mask was not there",
    (stats) => stats.constraints.numSkippedSteps,
  ],
  ["grammar_threads_replaced_total", "Grammar threads replaced", (stats) => stats.constraints.numThreadsReplaced],
  ["engine_steps_total", "Engine steps", (stats) => stats.numSteps],
  ["engine_step_seconds_total", "Wall time of engine steps", (stats) => stats.stepMs / 1000],
  [
    "engine_prompt_seconds_total",
    "Wall time of engine steps, by the share of their rows that are prompt tokens",
    (stats) => stats.promptMs / 1000,
  ],
  ["engine_kernel_seconds_total", "Wall time inside the kernels", (stats) => stats.kernelMs / 1000],
];

function registerEngineMetrics(registry: Registry, engine: Engine): void {
  for (const [name, help, value] of GAUGES) {
    const gauge: Gauge = new Gauge({
      name: `millrace:${name}`,
      help,
      registers: [registry],
      collect: () => {
        gauge.set(value(engine.stats(), engine));
      },
    });
  }
  for (const [name, help, value] of COUNTERS) {
    const counter: Counter = new Counter({
      name: `millrace:${name}`,
      help,
      registers: [registry],
      // The engine keeps the count; the metric shows it.
      collect: () => {
        counter.reset();
        counter.inc(value(engine.stats()));
      },
    });
  }
  const perPosition: Counter<"position"> = new Counter({
    name: "millrace:spec_decode_num_accepted_tokens_per_pos_total",
    help: "Drafted tokens that were right, by their place in the draft",
    labelNames: ["position"],
    registers: [registry],
    collect: () => {
      perPosition.reset();
      engine.stats().speculation.numAcceptedTokensPerPosition.forEach((count, position) => {
        perPosition.inc({ position: String(position) }, count);
      });
    },
  });
  const { blockSize, numKvBlocks, kvCacheDtype, kvEviction, maxNumSeqs } = engine.info;
  new Gauge({
    name: "millrace:cache_config_info",
    help: "How the KV cache is set up, and how many sequences are computed at once",
    labelNames: ["block_size", "num_kv_blocks", "cache_dtype", "eviction", "max_num_seqs"],
    registers: [registry],
  }).set(
    {
      block_size: String(blockSize),
      num_kv_blocks: String(numKvBlocks),
      cache_dtype: kvCacheDtype,
      eviction: kvEviction === undefined ? "none" : evictionText(kvEviction),
      max_num_seqs: String(maxNumSeqs),
    },
    1,
  );
}

function createHistograms(registry: Registry) {
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `millrace:${name}`, help, buckets, registers: [registry] });
  return {
    timeToFirstToken: histogram("time_to_first_token_seconds", "Arrival to first token", LATENCY_BUCKETS_S),
    interToken: histogram("inter_token_latency_seconds", "Between one token and the next", TOKEN_BUCKETS_S),
    perOutputToken: histogram(
      "request_time_per_output_token_seconds",
      "First to last token, divided by the tokens after the first",
      TOKEN_BUCKETS_S,
    ),
    endToEnd: histogram("e2e_request_latency_seconds", "Arrival to last token", LATENCY_BUCKETS_S),
    queue: histogram("request_queue_time_seconds", "Arrival at the engine to admission", PART_BUCKETS_S),
    prefill: histogram("request_prefill_time_seconds", "Admission to first token", PART_BUCKETS_S),
    inference: histogram("request_inference_time_seconds", "Admission to last token", PART_BUCKETS_S),
    decode: histogram("request_decode_time_seconds", "First to last token", PART_BUCKETS_S),
    promptTokens: histogram("request_prompt_tokens", "Prompt tokens of a request", TOKEN_COUNT_BUCKETS),
    generationTokens: histogram("request_generation_tokens", "Tokens generated for a request", TOKEN_COUNT_BUCKETS),
    maxTokens: histogram("request_params_max_tokens", "Tokens asked for at most", TOKEN_COUNT_BUCKETS),
  };
}

type Histograms = ReturnType<typeof createHistograms>;

class Timer implements RequestTimer {
  readonly #histograms: Histograms;
  readonly #finished: Counter<"finished_reason">;
  readonly #numPromptTokens: number;
  readonly #maxTokens: number;
  readonly #arrivedAtMs: number;
  /** The engine's queue time begins here; earlier time went into reading the body and building the prompt. */
  readonly #submittedAtMs = performance.now();
  #firstTokenAtMs: number | undefined;
  #lastTokenAtMs: number | undefined;
  #queueMs: number | undefined;
  #numCachedTokens = 0;
  #numTokens = 0;
  #numDraftTokens = 0;
  #isOver = false;

  constructor(
    histograms: Histograms,
    finished: Counter<"finished_reason">,
    { promptIds, sampling }: EngineRequest,
    arrivedAtMs: number,
  ) {
    this.#histograms = histograms;
    this.#finished = finished;
    this.#numPromptTokens = promptIds.length;
    this.#maxTokens = sampling.maxTokens;
    this.#arrivedAtMs = arrivedAtMs;
  }

  onTokens({ numNewTokens: numTokens, numCachedTokens, queueMs }: Parameters<RequestTimer["onTokens"]>[0]): void {
    this.#numCachedTokens = numCachedTokens;
    if (this.#queueMs === undefined) {
      this.#queueMs = queueMs;
      this.#histograms.queue.observe(queueMs / 1000);
    }
    if (numTokens === 0) return;
    const nowMs = performance.now();
    if (this.#firstTokenAtMs === undefined) {
      this.#firstTokenAtMs = nowMs;
      this.#histograms.prefill.observe((nowMs - this.#submittedAtMs - queueMs) / 1000);
      this.#histograms.timeToFirstToken.observe((nowMs - this.#arrivedAtMs) / 1000);
    } else {
      this.#histograms.interToken.observe((nowMs - this.#lastTokenAtMs!) / 1000);
      this.#numDraftTokens += numTokens - 1;
    }
    this.#lastTokenAtMs = nowMs;
    this.#numTokens += numTokens;
  }

  onEnd(reason: FinishedReason): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#finished.inc({ finished_reason: reason });
    if (reason === "error" || reason === "abort") return;
    this.#histograms.promptTokens.observe(this.#numPromptTokens);
    const nowMs = performance.now();
    this.#histograms.endToEnd.observe((nowMs - this.#arrivedAtMs) / 1000);
    this.#histograms.inference.observe((nowMs - this.#submittedAtMs - (this.#queueMs ?? 0)) / 1000);
    // A request for no tokens would distort the token counts.
    if (this.#maxTokens === 0) return;
    this.#histograms.maxTokens.observe(this.#maxTokens);
    this.#histograms.generationTokens.observe(this.#numTokens);
    if (this.#numTokens < 2) return;
    const decodeSeconds = (this.#lastTokenAtMs! - this.#firstTokenAtMs!) / 1000;
    this.#histograms.decode.observe(decodeSeconds);
    this.#histograms.perOutputToken.observe(decodeSeconds / (this.#numTokens - 1));
  }

  times(): RequestTimes {
    return {
      submittedAtMs: this.#submittedAtMs,
      queueMs: this.#queueMs,
      firstTokenAtMs: this.#firstTokenAtMs,
      lastTokenAtMs: this.#lastTokenAtMs,
      numPromptTokens: this.#numPromptTokens,
      numCachedTokens: this.#numCachedTokens,
      numTokens: this.#numTokens,
      numDraftTokens: this.#numDraftTokens,
    };
  }
}

export function createMetrics(engine: Engine, modelName: string): ServeMetrics {
  const registry = new Registry();
  registry.setDefaultLabels({ model_name: modelName });
  registerEngineMetrics(registry, engine);
  registerProcessMemory(registry);
  const histograms = createHistograms(registry);
  const finished = new Counter({
    name: "millrace:request_success_total",
    help: "Ended requests, by finish reason",
    labelNames: ["finished_reason"],
    registers: [registry],
  });
  for (const reason of ["stop", "length", "abort", "error"]) finished.inc({ finished_reason: reason }, 0);
  return {
    startRequest: (request, arrivedAtMs) => new Timer(histograms, finished, request, arrivedAtMs),
    render: nextRun(() => registry.metrics()),
    contentType: registry.contentType,
  };
}
