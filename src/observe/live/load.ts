/**
 * Rates, shares and quantiles of a server or a fleet, from two readings of its metrics: the dashboard's figures. A
 * figure is undefined if the metrics lack it.
 */
import { type Histogram, histogramOf, maxOf, quantileBetween, type Sample, sumOf } from "./metrics-text.js";

/** Costs, in dollars, come with a tenant's reading, since they are not public metrics. */
type CounterName = keyof typeof COUNTERS | "cost" | "savedCost";
type Counters = Readonly<Partial<Record<CounterName, number | undefined>>>;

/** One reading. */
export interface Reading {
  readonly atMs: number;
  readonly counters: Counters;
  readonly running: number | undefined;
  readonly waiting: number | undefined;
  /** Limit of concurrent requests. */
  readonly seats: number | undefined;
  readonly kvUse: number | undefined;
  /** Resident memory of all processes. */
  readonly memoryBytes: number | undefined;
  readonly firstToken: Histogram;
  readonly perToken: Histogram;
  readonly queue: Histogram;
}

const COUNTERS = {
  tokensIn: "millrace:prompt_tokens_total",
  tokensOut: "millrace:generation_tokens_total",
  prefixQueries: "millrace:prefix_cache_queries_total",
  prefixHits: "millrace:prefix_cache_hits_total",
  drafted: "millrace:spec_decode_num_draft_tokens_total",
  accepted: "millrace:spec_decode_num_accepted_tokens_total",
  preemptions: "millrace:num_preemptions_total",
  evicted: "millrace:kv_evicted_tokens_total",
  stepSeconds: "millrace:engine_step_seconds_total",
  promptSeconds: "millrace:engine_prompt_seconds_total",
  kernelSeconds: "millrace:engine_kernel_seconds_total",
  requests: "millrace:request_success_total",
  fleetRequests: "millrace_fleet:requests_total",
  refused: "millrace_fleet:refused_total",
  cacheSaved: "millrace_fleet:cache_saved_tokens_total",
} as const;

const FIRST_TOKEN = ["millrace:time_to_first_token_seconds", "millrace_fleet:time_to_first_byte_seconds"] as const;
const PER_TOKEN = "millrace:request_time_per_output_token_seconds";
const IN_QUEUE = "millrace:request_queue_time_seconds";
const GAUGES = {
  running: "millrace:num_requests_running",
  inFlight: "millrace_fleet:in_flight",
  queued: "millrace_fleet:queue_depth",
  waiting: "millrace:num_requests_waiting",
  kvUse: "millrace:kv_cache_usage_perc",
  config: "millrace:cache_config_info",
  seats: "millrace_fleet:instance_seats",
  memory: "process_resident_memory_bytes",
  instanceMemory: "millrace_fleet:instance_resident_memory_bytes",
} as const;

const FIGURES: ReadonlySet<string> = new Set([
  ...Object.values(COUNTERS),
  ...Object.values(GAUGES),
  ...[...FIRST_TOKEN, PER_TOKEN, IN_QUEUE].map((name) => `${name}_bucket`),
]);

/** Whether a reading uses the metric. */
export const isFigure = (name: string): boolean => FIGURES.has(name);

function grouped<K>(samples: readonly Sample[], keysOf: (sample: Sample) => readonly K[]): Map<K, Sample[]> {
  const groups = new Map<K, Sample[]>();
  for (const sample of samples) {
    for (const key of keysOf(sample)) {
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [sample]);
      else group.push(sample);
    }
  }
  return groups;
}

/** Undefined if a computing engine does not report its number. */
function seatsIn(byName: ReadonlyMap<string, readonly Sample[]>): number | undefined {
  const ofInstances = byName.get(GAUGES.seats) ?? [];
  const numEngines = byName.get(GAUGES.running)?.length ?? 0;
  if (ofInstances.length > 0) return ofInstances.length < numEngines ? undefined : sumOf(ofInstances, GAUGES.seats);
  const seats = Number(byName.get(GAUGES.config)?.[0]?.labels.max_num_seqs);
  return Number.isFinite(seats) ? seats : undefined;
}

const sumOfKnown = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);

export function readingOf(samples: readonly Sample[], atMs: number): Reading {
  const byName = grouped(samples, ({ name }) => [name]);
  const sum = (name: string): number | undefined => sumOf(byName.get(name) ?? [], name);
  const histogram = (name: string): Histogram => histogramOf(byName.get(`${name}_bucket`) ?? [], name);
  const counters = Object.entries(COUNTERS).map(([key, name]) => [key, sum(name)]);
  const queued = sum(GAUGES.queued);
  const waiting = sum(GAUGES.waiting);
  const ofEngine = histogram(FIRST_TOKEN[0]);
  return {
    atMs,
    counters: Object.fromEntries(counters),
    running: sum(GAUGES.running) ?? sum(GAUGES.inFlight),
    waiting: sumOfKnown(queued, waiting),
    seats: seatsIn(byName),
    memoryBytes: sumOfKnown(sum(GAUGES.memory), sum(GAUGES.instanceMemory)),
    kvUse: maxOf(byName.get(GAUGES.kvUse) ?? [], GAUGES.kvUse),
    firstToken: ofEngine.size > 0 ? ofEngine : histogram(FIRST_TOKEN[1]),
    perToken: histogram(PER_TOKEN),
    queue: histogram(IN_QUEUE),
  };
}

export const PART_KINDS = ["model", "instance", "tenant"] as const;

/** A model of a fleet, one of its instances, or a tenant of its gateway. */
export interface Part {
  readonly kind: (typeof PART_KINDS)[number];
  readonly name: string;
}

/** The part in a query and as a file's name. Lone surrogates, which are invalid in both, are replaced. */
export const keyOf = ({ kind, name }: Part): string =>
  `${kind}=${encodeURIComponent(name.replace(/\p{Surrogate}/gu, "\ufffd"))}`;

/** @returns undefined if the key is invalid */
export function partOf(key: string): Part | undefined {
  const [, kind, name] = /^(model|instance|tenant)=([^=]+)$/.exec(key) ?? [];
  try {
    return kind === undefined ? undefined : { kind: kind as Part["kind"], name: decodeURIComponent(name!) };
  } catch {
    return undefined;
  }
}

/**
 * Readings of a fleet's models and instances by key, models first. A server of one model has none.
 *
 * @param wanted keys; undefined: all parts
 */
export function readingsOfParts(
  samples: readonly Sample[],
  atMs: number,
  wanted?: ReadonlySet<string>,
): ReadonlyMap<string, Reading> {
  const keysOf = (kind: Part["kind"], metric: string): ReadonlyMap<string, string> => {
    const names = samples.flatMap(({ name, labels }) => (name === metric ? [labels[kind] ?? ""] : []));
    return new Map(names.map((name) => [name, keyOf({ kind, name })]));
  };
  // Each present part has these metrics; requests that found no instance have an empty name.
  const models = keysOf("model", GAUGES.queued);
  const instances = keysOf("instance", GAUGES.inFlight);
  const isWanted = (key: string | undefined): key is string => key !== undefined && (wanted?.has(key) ?? true);
  const groups = grouped(samples, ({ labels: { model = "", instance = "" } }) =>
    [models.get(model), instances.get(instance)].filter(isWanted),
  );
  const keys = wanted ?? [...models.values(), ...instances.values()];
  return new Map([...keys].map((key) => [key, readingOf(groups.get(key) ?? [], atMs)]));
}

interface Quantiles {
  readonly p50: number | undefined;
  readonly p95: number | undefined;
  readonly p99: number | undefined;
}

export interface Load {
  readonly atMs: number;
  readonly tokensInPerS: number | undefined;
  readonly tokensOutPerS: number | undefined;
  readonly requestsPerS: number | undefined;
  readonly refusedPerS: number | undefined;
  readonly running: number | undefined;
  readonly waiting: number | undefined;
  /** Limit of concurrent requests; for a fleet, over all ready instances that report it. */
  readonly seats: number | undefined;
  /** Resident memory of all processes; shared pages count in each. */
  readonly memoryBytes: number | undefined;
  /** Shares from 0 to 1. */
  readonly kvUse: number | undefined;
  readonly prefixHits: number | undefined;
  readonly acceptance: number | undefined;
  /** Shares of the steps' time: for prompts (the rest is for answers), and outside the kernels. */
  readonly promptShare: number | undefined;
  readonly hostShare: number | undefined;
  readonly preemptionsPerS: number | undefined;
  /** Tokens whose keys and values were dropped. */
  readonly evictedPerS: number | undefined;
  /** Prompt tokens from the prefix cache, answer tokens from drafts, and tokens of kept answers. */
  readonly prefixSavedPerS: number | undefined;
  readonly draftedPerS: number | undefined;
  readonly savedPerS: number | undefined;
  /** Dollars per hour. */
  readonly costPerH: number | undefined;
  readonly savedCostPerH: number | undefined;
  /** In milliseconds. */
  readonly ttft: Quantiles;
  readonly tpot: Quantiles;
  readonly queue: Quantiles;
}

function quantiles(before: Histogram, now: Histogram): Quantiles {
  const at = (share: number) => {
    const seconds = quantileBetween(before, now, share);
    return seconds === undefined ? undefined : 1000 * seconds;
  };
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

/**
 * @param before an earlier reading: rates cover the time since then
 * @param long an even earlier one, for quantiles and shares, which need more requests
 */
export function loadBetween(before: Reading, now: Reading, long: Reading = before): Load {
  const grown = (from: Reading, key: keyof Counters): number | undefined => {
    const [a, b] = [from.counters[key], now.counters[key]];
    // A counter that shrank belongs to a restarted server.
    return a === undefined || b === undefined || b < a ? undefined : b - a;
  };
  const rate = (key: keyof Counters): number | undefined => {
    const more = grown(before, key);
    return more === undefined ? undefined : (1000 * more) / (now.atMs - before.atMs);
  };
  const shareSince = (from: Reading, part: keyof Counters, whole: keyof Counters): number | undefined => {
    const [a, b] = [grown(from, part), grown(from, whole)];
    return a === undefined || b === undefined || b === 0 ? undefined : a / b;
  };
  // An instance that came or returned after the earlier reading has figures since the later one.
  const share = (part: keyof Counters, whole: keyof Counters): number | undefined =>
    shareSince(long, part, whole) ?? shareSince(before, part, whole);
  const hourly = (key: keyof Counters): number | undefined => {
    const perS = rate(key);
    return perS === undefined ? undefined : 3600 * perS;
  };
  const kernels = share("kernelSeconds", "stepSeconds");
  return {
    atMs: now.atMs,
    tokensInPerS: rate("tokensIn"),
    tokensOutPerS: rate("tokensOut"),
    requestsPerS: rate("fleetRequests") ?? rate("requests"),
    refusedPerS: rate("refused"),
    running: now.running,
    waiting: now.waiting,
    seats: now.seats,
    memoryBytes: now.memoryBytes,
    kvUse: now.kvUse,
    prefixHits: share("prefixHits", "prefixQueries"),
    acceptance: share("accepted", "drafted"),
    promptShare: share("promptSeconds", "stepSeconds"),
    hostShare: kernels === undefined ? undefined : Math.max(0, 1 - kernels),
    preemptionsPerS: rate("preemptions"),
    evictedPerS: rate("evicted"),
    prefixSavedPerS: rate("prefixHits"),
    draftedPerS: rate("accepted"),
    savedPerS: rate("cacheSaved"),
    costPerH: hourly("cost"),
    savedCostPerH: hourly("savedCost"),
    ttft: quantiles(long.firstToken, now.firstToken),
    tpot: quantiles(long.perToken, now.perToken),
    queue: quantiles(long.queue, now.queue),
  };
}
