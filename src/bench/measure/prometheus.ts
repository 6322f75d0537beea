/** Figures of a run from the server's `/metrics`: counters as differences over the run, gauges as samples. */

import { median } from "../../core/statistics.js";
import type { ServerMetrics } from "../results/schema.js";

/** Sums by metric name, over all labels and therefore over a fleet's instances. */
type MetricSums = ReadonlyMap<string, { readonly sum: number; readonly numSeries: number }>;

/** Metric names without prefixes; the first that the server has is used. */
const NAMES = {
  queueSeconds: ["request_queue_time_seconds_sum"],
  queued: ["request_queue_time_seconds_count"],
  prefillSeconds: ["request_prefill_time_seconds_sum"],
  decodeSeconds: ["request_decode_time_seconds_sum"],
  stepSeconds: ["engine_step_seconds_total"],
  kernelSeconds: ["engine_kernel_seconds_total"],
  promptSeconds: ["engine_prompt_seconds_total"],
  drafts: ["spec_decode_num_drafts_total", "spec_decode_num_drafts"],
  drafted: ["spec_decode_num_draft_tokens_total", "spec_decode_num_draft_tokens"],
  accepted: ["spec_decode_num_accepted_tokens_total", "spec_decode_num_accepted_tokens"],
  cacheQueries: ["prefix_cache_queries_total", "gpu_prefix_cache_queries_total"],
  cacheHits: ["prefix_cache_hits_total", "gpu_prefix_cache_hits_total"],
  preemptions: ["num_preemptions_total", "num_preemptions"],
  kvUsage: ["kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "kv_cache_usage_ratio"],
  running: ["num_requests_running", "num_running_reqs", "requests_processing"],
} as const;

const PREFIXES = ["millrace:", "vllm:", "sglang:", "llamacpp:"];

type Quantity = keyof typeof NAMES;

/** Parses Prometheus' text format; unknown lines are skipped. */
export function parseMetrics(text: string): MetricSums {
  const sums = new Map<string, { sum: number; numSeries: number }>();
  for (const line of text.split("\n")) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{.*\})?\s+(\S+)/.exec(line);
    const value = Number(match?.[2]);
    if (match === null || !Number.isFinite(value)) continue;
    const { sum, numSeries } = sums.get(match[1]!) ?? { sum: 0, numSeries: 0 };
    sums.set(match[1]!, { sum: sum + value, numSeries: numSeries + 1 });
  }
  return sums;
}

function metricOf(sums: MetricSums, quantity: Quantity): number | undefined {
  for (const prefix of PREFIXES) {
    for (const name of NAMES[quantity]) {
      const found = sums.get(prefix + name);
      // Each instance reports a share of its own memory.
      if (found !== undefined) return quantity === "kvUsage" ? found.sum / found.numSeries : found.sum;
    }
  }
  return undefined;
}

/** @param samples of gauges during the run */
export function serverMetrics(before: MetricSums, after: MetricSums, samples: readonly MetricSums[]): ServerMetrics {
  const sampled = (quantity: Quantity) => samples.flatMap((sums) => metricOf(sums, quantity) ?? []);
  const most = (values: readonly number[]) => (values.length === 0 ? undefined : Math.max(...values));
  const kvUsages = sampled("kvUsage");
  const grown = (quantity: Quantity): number | undefined => {
    const end = metricOf(after, quantity);
    return end === undefined ? undefined : end - (metricOf(before, quantity) ?? 0);
  };
  const share = (part: number | undefined, whole: number | undefined) =>
    part === undefined || whole === undefined || whole === 0 ? undefined : part / whole;
  const [drafted, accepted] = [grown("drafted"), grown("accepted")];
  const perDraft = share(accepted, grown("drafts"));
  const queueS = share(grown("queueSeconds"), grown("queued"));
  const [prefillS, decodeS] = [grown("prefillSeconds"), grown("decodeSeconds")];
  return {
    prefillShare:
      share(grown("promptSeconds"), grown("stepSeconds")) ??
      share(prefillS, prefillS === undefined || decodeS === undefined ? undefined : prefillS + decodeS),
    kernelShare: share(grown("kernelSeconds"), grown("stepSeconds")),
    queueMs: queueS === undefined ? undefined : 1000 * queueS,
    acceptance: share(accepted, drafted),
    rejected: drafted === undefined || accepted === undefined ? undefined : drafted - accepted,
    acceptedLength: perDraft === undefined ? undefined : 1 + perDraft,
    cacheHitShare: share(grown("cacheHits"), grown("cacheQueries")),
    preemptions: grown("preemptions"),
    medianKvUsage: kvUsages.length === 0 ? undefined : median(kvUsages),
    maxKvUsage: most(kvUsages),
    maxRunning: most(sampled("running")),
  };
}

const SAMPLE_MS = 250;
const TIMEOUT_MS = 5000;

/** Watches a server's metrics until `finish`; a server without metrics is not asked again. */
export class MetricsWatch {
  readonly #samples: MetricSums[] = [];
  readonly #timer: NodeJS.Timeout;

  private constructor(
    private readonly url: string,
    private readonly before: MetricSums | undefined,
  ) {
    this.#timer = setInterval(() => void this.#sample(), SAMPLE_MS);
    if (before === undefined) clearInterval(this.#timer);
  }

  static async start(url: string): Promise<MetricsWatch> {
    return new MetricsWatch(url, await readMetrics(url));
  }

  async #sample(): Promise<void> {
    const sums = await readMetrics(this.url);
    if (sums !== undefined) this.#samples.push(sums);
  }

  async finish(): Promise<ServerMetrics | undefined> {
    clearInterval(this.#timer);
    if (this.before === undefined) return undefined;
    const after = await readMetrics(this.url);
    return after === undefined ? undefined : serverMetrics(this.before, after, this.#samples);
  }
}

async function readMetrics(url: string): Promise<MetricSums | undefined> {
  try {
    const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? parseMetrics(await response.text()) : undefined;
  } catch {
    // The server has no metrics, or it is gone, in which case the requests fail, too.
    return undefined;
  }
}
