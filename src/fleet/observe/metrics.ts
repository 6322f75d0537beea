/**
 * Prometheus metrics of the fleet: its own (`millrace_fleet:`), counted as requests pass, and those of each instance's
 * last scrape, under the same names for all engines (`millrace:`, after vLLM's).
 */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { LATENCY_BUCKETS_S } from "../../core/latency-buckets.js";
import { nextRun } from "../../core/next-run.js";
import type { CacheResult } from "../../gateway/cache/exact-cache.js";
import type { LimitSource } from "../../gateway/lengths/length-policy.js";
import type { Outcome, ProxyObserver, RequestObserver, RequestStart } from "../../gateway/observer.js";
import type { TokenCounts } from "../../gateway/usage/record.js";
import { registerProcessMemory } from "../../observe/process-memory.js";
import { BREAKER_STATES, type BreakerState } from "../routing/breaker.js";
import { residentBytes } from "../scaling/memory.js";
import type { EngineMetrics } from "../upstream/engine.js";
import { INSTANCE_STATES, type InstanceState, type Upstream, type UpstreamPool } from "../upstream/upstream.js";
import { timesText } from "./engine-times.js";
import { acceptsOpenMetrics, Exemplars, type MetricsText, OPEN_METRICS_TYPE, toOpenMetrics } from "./open-metrics.js";

const TENTHS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
/** Label of requests that end, refused or cancelled, before an instance is chosen. */
const NO_INSTANCE = "";

type Figure = readonly [
  key: Exclude<keyof EngineMetrics, `${string}Times` | "residentBytes">,
  name: string,
  help: string,
  kind: "gauge" | "counter",
];

const FIGURES: readonly Figure[] = [
  ["numRunning", "num_requests_running", "Requests in the engine's batch", "gauge"],
  ["numWaiting", "num_requests_waiting", "Requests in the engine's queue", "gauge"],
  ["kvUsage", "kv_cache_usage_perc", "Share of the KV memory in use, 0 to 1", "gauge"],
  ["promptTokens", "prompt_tokens_total", "Prompt tokens processed", "counter"],
  ["generationTokens", "generation_tokens_total", "Tokens generated", "counter"],
  ["prefixQueries", "prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache", "counter"],
  ["prefixHits", "prefix_cache_hits_total", "Prompt tokens found in the prefix cache", "counter"],
  ["preemptions", "num_preemptions_total", "Times a running request gave its memory back", "counter"],
  ["draftTokens", "spec_decode_num_draft_tokens_total", "Tokens drafted", "counter"],
  ["acceptedTokens", "spec_decode_num_accepted_tokens_total", "Drafted tokens that were right", "counter"],
  ["evictedTokens", "kv_evicted_tokens_total", "Tokens whose keys and values were evicted", "counter"],
  ["stepSeconds", "engine_step_seconds_total", "Wall time of engine steps", "counter"],
  ["promptSeconds", "engine_prompt_seconds_total", "Wall time of engine steps, by the share of prompts", "counter"],
  ["kernelSeconds", "engine_kernel_seconds_total", "Wall time inside the kernels", "counter"],
];

/** Current values from the proxy. */
interface ProxyGauges {
  /** Number of a model's requests in the queue for an instance. */
  numWaiting(model: string): number;
  /** Number of running sequences that the proxy has sent to an instance. */
  numInFlight(upstream: Upstream): number;
  /** State of the instance's circuit breaker. */
  breakerState(upstream: Upstream): BreakerState;
  /** Resolves a name to a model; undefined: unknown name. */
  modelOf(name: string): string | undefined;
  /** The size of the store of kept answers. */
  cacheStats?(): Promise<{ readonly entries: number; readonly bytes: number } | undefined>;
}

/** Counts answers of models whose lengths have rules. */
interface LengthCounts {
  answerEnded(model: string, limit: LimitSource, isTruncated: boolean): void;
}

/** Counts requests for the files of recorded traffic. */
interface RecorderCounts {
  requestsRecorded(result: "written" | "lost", count: number): void;
}

/** Counts the results of the exact cache. */
interface CacheCounts {
  /** @param saved token counts of the repeated answer, if known */
  cacheAnswered(model: string, result: CacheResult, saved: TokenCounts | undefined): void;
}

export interface FleetMetrics extends ProxyObserver, CacheCounts, LengthCounts, RecorderCounts {
  render(): Promise<string>;
  /** The metrics for a scraper: with exemplars if it accepts them and requests have traces. */
  answer(accept: string | undefined): Promise<MetricsText>;
  /** For other parts to add metrics to. */
  readonly registry: Registry;
}

function eachUpstream(pool: UpstreamPool): readonly Upstream[] {
  return pool.models().flatMap((model) => pool.upstreams(model));
}

const labelsOf = ({ model, id, engine }: Upstream) => ({ model, instance: id, engine });

/** Registers the instances' own metrics: read at each scrape, and removed with their instance. */
function registerFigures(registry: Registry, pool: UpstreamPool): void {
  const labelNames = ["model", "instance", "engine"];
  for (const [key, name, help, kind] of FIGURES) {
    const config = { name: `millrace:${name}`, help, labelNames, registers: [registry] };
    const collect = (): void => {
      metric.reset();
      for (const upstream of eachUpstream(pool)) {
        const value = upstream.metrics?.[key];
        if (value !== undefined) metric.inc(labelsOf(upstream), value);
      }
    };
    const metric: Gauge | Counter =
      kind === "gauge" ? new Gauge({ ...config, collect }) : new Counter({ ...config, collect });
  }
}

function registerStates(registry: Registry, pool: UpstreamPool, proxy: ProxyGauges): void {
  const gauge = <const L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    set: (gauge: Gauge<L>) => void,
  ): void => {
    const made: Gauge<L> = new Gauge({
      name: `millrace_fleet:${name}`,
      help,
      labelNames,
      registers: [registry],
      collect: () => {
        made.reset();
        set(made);
      },
    });
  };
  const instance = ["model", "instance", "engine"] as const;
  gauge("queue_depth", "Requests that wait for an instance", ["model"], (made) => {
    for (const model of pool.models()) made.set({ model }, proxy.numWaiting(model));
  });
  gauge("in_flight", "Sequences sent to an instance and not ended", instance, (made) => {
    for (const upstream of eachUpstream(pool)) made.set(labelsOf(upstream), proxy.numInFlight(upstream));
  });
  gauge("instance_state", "1 for the state an instance is in", [...instance, "state"], (made) => {
    for (const upstream of eachUpstream(pool)) {
      for (const state of INSTANCE_STATES) made.set({ ...labelsOf(upstream), state }, Number(upstream.state === state));
    }
  });
  gauge("instance_breaker", "1 for the state its circuit breaker is in", [...instance, "state"], (made) => {
    for (const upstream of eachUpstream(pool)) {
      const now = proxy.breakerState(upstream);
      for (const state of BREAKER_STATES) made.set({ ...labelsOf(upstream), state }, Number(now === state));
    }
  });
  gauge("instance_starts", "Times its process was started", instance, (made) => {
    for (const upstream of eachUpstream(pool)) made.set(labelsOf(upstream), upstream.starts);
  });
  gauge("instance_seats", "Sequences that it computes at once, where it says so", instance, (made) => {
    for (const upstream of eachUpstream(pool)) {
      if (COMPUTING.has(upstream.state)) setKnown(made, upstream, upstream.capacity.seats);
    }
  });
  gauge("instance_resident_memory_bytes", "Resident memory of its processes", instance, (made) => {
    for (const upstream of eachUpstream(pool)) setKnown(made, upstream, memoryOf(upstream));
  });
}

/** States in which an instance computes requests. */
const COMPUTING: ReadonlySet<InstanceState> = new Set(["ready", "suspect", "draining"]);

function setKnown(gauge: Gauge<"model" | "instance" | "engine">, upstream: Upstream, value: number | undefined): void {
  if (value !== undefined) gauge.set(labelsOf(upstream), value);
}

/** Memory of the upstream's processes on this machine; for an attached server of ours, what the server reports. */
const memoryOf = ({ pid, metrics }: Upstream): number | undefined =>
  pid === undefined ? metrics?.residentBytes : residentBytes(pid);

const FIRST_BYTE = "millrace_fleet:time_to_first_byte_seconds";
const DURATION = "millrace_fleet:request_duration_seconds";

function createRequestMetrics(registry: Registry) {
  const registers = [registry];
  const prefix = "millrace_fleet:";
  return {
    requests: new Counter({
      name: `${prefix}requests_total`,
      help: "Ended requests, by outcome: answered, broken, failed, cancelled",
      labelNames: ["model", "instance", "outcome"],
      registers,
    }),
    refused: new Counter({
      name: `${prefix}refused_total`,
      help: "Requests refused before their model was known, by error code",
      labelNames: ["code"],
      registers,
    }),
    retries: new Counter({
      name: `${prefix}retries_total`,
      help: "Requests that an instance did not take, and that another instance got",
      labelNames: ["model", "instance"],
      registers,
    }),
    hedges: new Counter({
      name: `${prefix}hedges_total`,
      help: "Requests also sent to this instance, since another had not begun to answer",
      labelNames: ["model", "instance"],
      registers,
    }),
    hedgesWon: new Counter({
      name: `${prefix}hedges_won_total`,
      help: "Hedged requests whose answer came from this instance",
      labelNames: ["model", "instance"],
      registers,
    }),
    limitedAnswers: new Counter({
      name: `${prefix}limited_answers_total`,
      help: "Whole answers of models and routes with max-tokens, by whose limit they had: client, policy, none",
      labelNames: ["model", "limit"],
      registers,
    }),
    recordedRequests: new Counter({
      name: `${prefix}recorded_requests_total`,
      help: "Requests for the files of recorded traffic: written, or lost (queue or disk full, too large, unreadable)",
      labelNames: ["result"],
      registers,
    }),
    truncatedAnswers: new Counter({
      name: `${prefix}truncated_answers_total`,
      help: "Answers of models with max-tokens that reached their limit",
      labelNames: ["model", "limit"],
      registers,
    }),
    firstByte: new Histogram({
      name: FIRST_BYTE,
      help: "Arrival to the first byte of the answer",
      labelNames: ["model", "instance"],
      buckets: LATENCY_BUCKETS_S,
      registers,
    }),
    duration: new Histogram({
      name: DURATION,
      help: "Arrival to the last byte of the answer",
      labelNames: ["model"],
      buckets: LATENCY_BUCKETS_S,
      registers,
    }),
    matched: new Histogram({
      name: `${prefix}prefix_matched_fraction`,
      help: "Share of the prompt that routing believed the chosen instance to have cached",
      labelNames: ["model"],
      buckets: TENTHS,
      registers,
    }),
  };
}

function createCacheMetrics(registry: Registry, { cacheStats }: ProxyGauges) {
  const registers = [registry];
  const prefix = "millrace_fleet:cache_";
  for (const [key, help] of [
    ["entries", "Answers that are kept"],
    ["bytes", "Bytes of answers that are kept"],
  ] as const) {
    const made: Gauge = new Gauge({
      name: `${prefix}${key}`,
      help,
      registers,
      collect: async () => {
        made.reset();
        // Without an answer from the store, only its figures are missing.
        const stats = await cacheStats?.().catch(() => undefined);
        if (stats !== undefined) made.set(stats[key]);
      },
    });
  }
  return {
    results: new Counter({
      name: `${prefix}requests_total`,
      help: "Requests of models with a cache: hit, joined (shared a run), miss, stale (kept, but too old), bypass (not kept)",
      labelNames: ["model", "result"],
      registers,
    }),
    saved: new Counter({
      name: `${prefix}saved_tokens_total`,
      help: "Tokens of kept answers that were given instead of new ones, by kind: prompt, output",
      labelNames: ["model", "kind"],
      registers,
    }),
  };
}

interface RequestExemplars {
  readonly firstByte: Exemplars;
  readonly duration: Exemplars;
}

type RequestMetrics = ReturnType<typeof createRequestMetrics>;

class CountedRequest implements RequestObserver {
  readonly #beganMs = performance.now();
  #instance = NO_INSTANCE;
  #hedge: string | undefined;

  constructor(
    private readonly metrics: RequestMetrics,
    private readonly exemplars: RequestExemplars,
    private readonly model: string,
    private readonly traceId: string | undefined,
  ) {}

  routed(instanceId: string, matchedFraction: number): void {
    this.#instance = instanceId;
    this.metrics.matched.observe({ model: this.model }, matchedFraction);
  }

  hedged(instanceId: string): void {
    this.#hedge = instanceId;
    this.metrics.hedges.inc({ model: this.model, instance: instanceId });
  }

  retried(instanceId: string): void {
    this.metrics.retries.inc({ model: this.model, instance: instanceId });
  }

  firstByte(): void {
    const labels = { model: this.model, instance: this.#instance };
    const seconds = this.#seconds();
    this.metrics.firstByte.observe(labels, seconds);
    if (this.traceId !== undefined) this.exemplars.firstByte.add(labels, seconds, this.traceId);
  }

  ended(outcome: Outcome): void {
    if (outcome === "answered" && this.#hedge !== undefined && this.#hedge === this.#instance) {
      this.metrics.hedgesWon.inc({ model: this.model, instance: this.#hedge });
    }
    this.metrics.requests.inc({ model: this.model, instance: this.#instance, outcome });
    const seconds = this.#seconds();
    this.metrics.duration.observe({ model: this.model }, seconds);
    if (this.traceId !== undefined) this.exemplars.duration.add({ model: this.model }, seconds, this.traceId);
  }

  #seconds(): number {
    return (performance.now() - this.#beganMs) / 1000;
  }
}

/**
 * @param traceparent 00-<32 digits of the trace>-<16 of the span>-<flags>
 * @returns undefined: the trace is not sampled
 */
const sampledTraceOf = (traceparent: string | undefined): string | undefined =>
  (Number.parseInt(traceparent?.slice(53, 55) ?? "0", 16) & 1) === 1 ? traceparent!.slice(3, 35) : undefined;

export function createFleetMetrics(pool: UpstreamPool, proxy: ProxyGauges): FleetMetrics {
  const registry = new Registry();
  const metrics = createRequestMetrics(registry);
  const cache = createCacheMetrics(registry, proxy);
  registerProcessMemory(registry);
  registerStates(registry, pool, proxy);
  registerFigures(registry, pool);
  const exemplars = {
    firstByte: new Exemplars(FIRST_BYTE, LATENCY_BUCKETS_S),
    duration: new Exemplars(DURATION, LATENCY_BUCKETS_S),
  };
  let hasTraces = false;
  // Rendering takes milliseconds, and anybody may request it.
  const render = nextRun(async () => `${await registry.metrics()}\n${timesText(eachUpstream(pool))}`);
  return {
    // Unknown names never become labels, so that no client can fill the memory with them.
    started: ({ model }: RequestStart, traceparent) => {
      hasTraces ||= traceparent !== undefined;
      const traceId = sampledTraceOf(traceparent);
      return new CountedRequest(metrics, exemplars, proxy.modelOf(model) ?? "unknown", traceId);
    },
    refused: (_, code) => metrics.refused.inc({ code }),
    cacheAnswered: (model, result, saved) => {
      cache.results.inc({ model, result });
      if (saved === undefined) return;
      cache.saved.inc({ model, kind: "prompt" }, saved.fresh + saved.cacheRead + saved.cacheWrite);
      cache.saved.inc({ model, kind: "output" }, saved.output);
    },
    answerEnded: (model, limit, isTruncated) => {
      metrics.limitedAnswers.inc({ model, limit });
      if (isTruncated) metrics.truncatedAnswers.inc({ model, limit });
    },
    requestsRecorded: (result, count) => metrics.recordedRequests.inc({ result }, count),
    render,
    answer: async (accept) =>
      hasTraces && acceptsOpenMetrics(accept)
        ? { text: toOpenMetrics(await render(), Object.values(exemplars)), contentType: OPEN_METRICS_TYPE }
        : { text: await render(), contentType: registry.contentType },
    registry,
  };
}
