/** Parses the Prometheus text format, and maps an engine's metric names to ours by a table. */
import type { EngineMetrics, EngineTimes } from "../upstream/engine.js";

interface Series {
  readonly sum: number;
  readonly count: number;
  /** Labels of the first matching line. */
  readonly labels: string;
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)/;

/** Engines have about twenty buckets; the buckets beyond this number are left out. */
const MAX_BUCKETS = 100;

/** The samples of a text. Other lines are skipped, so that an engine may add to its output. */
export class PrometheusText {
  readonly #series = new Map<string, Series>();
  /** Buckets of histograms: labels and values. */
  readonly #buckets = new Map<string, (readonly [labels: string, count: number])[]>();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const [, name, labels = "", number] = LINE.exec(line) ?? [];
      const value = Number(number);
      if (name === undefined || !Number.isFinite(value)) continue;
      const before = this.#series.get(name) ?? { sum: 0, count: 0, labels };
      this.#series.set(name, { sum: before.sum + value, count: before.count + 1, labels: before.labels });
      if (!name.endsWith("_bucket")) continue;
      const buckets = this.#buckets.get(name);
      if (buckets === undefined) this.#buckets.set(name, [[labels, value]]);
      else buckets.push([labels, value]);
    }
  }

  /**
   * Sum over all labels, such as an engine's ranks, of the first of these names in the text; undefined: the text has
   * none,
   * or the sum is not a count.
   */
  sum(names: readonly string[]): number | undefined {
    return countOf(this.#first(names)?.sum);
  }

  /** Mean over all labels; otherwise like `sum`. */
  mean(names: readonly string[]): number | undefined {
    const series = this.#first(names);
    return series === undefined ? undefined : countOf(series.sum / series.count);
  }

  /** A histogram in seconds, summed over all other labels; undefined: the text has no complete one. */
  times(names: readonly string[]): EngineTimes | undefined {
    const name = names.find((each) => this.#buckets.has(`${each}_bucket`));
    const sums = new Map<number, number>();
    for (const [labels, value] of this.#buckets.get(`${name}_bucket`) ?? []) {
      const end = Number(/(?:^|,)\s*le="([^"]*)"/.exec(labels)?.[1]?.replace("+Inf", "Infinity"));
      const count = countOf(value);
      if (!(end >= 0) || count === undefined || (sums.size >= MAX_BUCKETS && !sums.has(end))) continue;
      sums.set(end, (sums.get(end) ?? 0) + count);
    }
    const buckets = [...sums].sort(([a], [b]) => a - b);
    if (buckets.at(-1)?.[0] !== Number.POSITIVE_INFINITY) return undefined;
    return { buckets, sumSeconds: this.sum([`${name}_sum`]) };
  }

  label(name: string, label: string): string | undefined {
    const labels = this.#series.get(name)?.labels ?? "";
    return new RegExp(`(?:^|,)\\s*${label}="((?:[^"\\\\]|\\\\.)*)"`).exec(labels)?.[1];
  }

  #first(names: readonly string[]): Series | undefined {
    const name = names.find((each) => this.#series.has(each));
    return name === undefined ? undefined : this.#series.get(name);
  }
}

/**
 * @returns undefined for a value that is not a count: one load that is infinite or NaN would decide where all requests
 * go.
 */
const countOf = (value: number | undefined): number | undefined =>
  value !== undefined && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : undefined;

/**
 * An engine's names for each of our metrics, newest first. An empty list, or for rare metrics an absent one: the engine
 * lacks the metric.
 */
export type MetricNames = {
  readonly [Metric in Exclude<keyof EngineMetrics, TimeName | RareName>]: readonly string[];
} & { readonly [Metric in TimeName | RareName]?: readonly string[] };

type TimeName = "perTokenTimes" | "interTokenTimes" | "queueTimes";

const RARE = ["evictedTokens", "stepSeconds", "promptSeconds", "kernelSeconds", "residentBytes"] as const;
type RareName = (typeof RARE)[number];

export const NO_METRICS: EngineMetrics = {
  numRunning: undefined,
  numWaiting: undefined,
  kvUsage: undefined,
  promptTokens: undefined,
  generationTokens: undefined,
  prefixQueries: undefined,
  prefixHits: undefined,
  preemptions: undefined,
  draftTokens: undefined,
  acceptedTokens: undefined,
};

/** Sums counts over an engine's ranks, and averages the share of memory in use. */
export function metricsByName(text: string, names: MetricNames): EngineMetrics {
  const metrics = new PrometheusText(text);
  return {
    numRunning: metrics.sum(names.numRunning),
    numWaiting: metrics.sum(names.numWaiting),
    kvUsage: metrics.mean(names.kvUsage),
    promptTokens: metrics.sum(names.promptTokens),
    generationTokens: metrics.sum(names.generationTokens),
    prefixQueries: metrics.sum(names.prefixQueries),
    prefixHits: metrics.sum(names.prefixHits),
    preemptions: metrics.sum(names.preemptions),
    draftTokens: metrics.sum(names.draftTokens),
    acceptedTokens: metrics.sum(names.acceptedTokens),
    ...rareIn(metrics, names),
    ...timesIn(metrics, names),
  };
}

/** Fields are absent if the engine does not report them. */
function rareIn(metrics: PrometheusText, names: MetricNames): Pick<EngineMetrics, RareName> {
  const found = RARE.map((key) => [key, metrics.sum(names[key] ?? [])] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}

/** Fields are absent if the engine does not report them. */
function timesIn(metrics: PrometheusText, { perTokenTimes = [], interTokenTimes = [], queueTimes = [] }: MetricNames) {
  const found = {
    perTokenTimes: metrics.times(perTokenTimes),
    interTokenTimes: metrics.times(interTokenTimes),
    queueTimes: metrics.times(queueTimes),
  };
  return Object.fromEntries(Object.entries(found).filter(([, times]) => times !== undefined));
}

/** vLLM V1's metric names, which our own engine shares. */
export function vllmMetricNames(prefix: string): MetricNames {
  const name = (own: string): readonly string[] => [prefix + own];
  return {
    numRunning: name("num_requests_running"),
    numWaiting: name("num_requests_waiting"),
    kvUsage: name("kv_cache_usage_perc"),
    promptTokens: name("prompt_tokens_total"),
    generationTokens: name("generation_tokens_total"),
    prefixQueries: name("prefix_cache_queries_total"),
    prefixHits: name("prefix_cache_hits_total"),
    preemptions: name("num_preemptions_total"),
    draftTokens: name("spec_decode_num_draft_tokens_total"),
    acceptedTokens: name("spec_decode_num_accepted_tokens_total"),
    perTokenTimes: name("request_time_per_output_token_seconds"),
    // Older versions of vLLM have the second name.
    interTokenTimes: [...name("inter_token_latency_seconds"), ...name("time_per_output_token_seconds")],
    queueTimes: name("request_queue_time_seconds"),
  };
}
