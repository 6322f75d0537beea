/**
 * The figures of the gateway's tenants, counted from the ledger's rows as requests end: amounts agree with the ledger,
 * and a request costs one look-up. Tenants beyond MOST_TENANTS count together.
 */
import { LATENCY_BUCKETS_S, TOKEN_BUCKETS_S } from "../../core/latency-buckets.js";
import type { RequestRow, RowOutcome } from "../../gateway/ledger/ledger-rows.js";
import { keyOf, type Reading } from "../../observe/live/load.js";
import { MOST_SERIES } from "../../observe/live/series-store.js";
import { type Buckets, familyText, histogramLines, labelsText } from "./metric-text.js";

/** Includes `OTHER`: each of them is a series of the dashboard. */
export const MOST_TENANTS = MOST_SERIES;
export const OTHER = "other";
/** A tenant without requests for this long gives up its place when another waits for one. */
const IDLE_MS = 3_600_000;

const NANO = 1e9;
const OUTCOMES = ["answered", "broken", "cancelled", "refused"] as const satisfies readonly RowOutcome[];

class Times {
  /** Separate counts of each bucket; the last bucket has no end. */
  readonly #counts: number[];
  sumSeconds = 0;

  constructor(private readonly ends: readonly number[]) {
    this.#counts = new Array<number>(ends.length + 1).fill(0);
  }

  observe(seconds: number): void {
    const bucket = this.ends.findIndex((end) => seconds <= end);
    this.#counts[bucket < 0 ? this.ends.length : bucket]!++;
    this.sumSeconds += seconds;
  }

  buckets(): Buckets {
    let sum = 0;
    return this.#counts.map((count, i) => {
      sum += count;
      return [this.ends[i] ?? Number.POSITIVE_INFINITY, sum] as const;
    });
  }
}

class Figures {
  readonly requests: Record<(typeof OUTCOMES)[number], number> = { answered: 0, broken: 0, cancelled: 0, refused: 0 };
  promptTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  costNano = 0;
  savedNano = 0;
  readonly firstToken = new Times(LATENCY_BUCKETS_S);
  readonly perToken = new Times(TOKEN_BUCKETS_S);
  /** Time of the latest request. */
  latestMs = 0;

  constructor(readonly name: string) {}

  count(row: RequestRow): void {
    // The next start reports requests that this process lost.
    if (row.outcome !== "lost") this.requests[row.outcome]++;
    for (const { counts, cost } of row.attempts) {
      this.costNano += Number(cost ?? 0n);
      if (counts === undefined) continue;
      this.promptTokens += counts.fresh + counts.cacheRead + counts.cacheWrite;
      this.cachedTokens += counts.cacheRead;
      this.outputTokens += counts.output;
    }
    this.savedNano += Number(row.saved);
    const firstMs = firstTokenMs(row);
    if (firstMs !== undefined) this.firstToken.observe(firstMs / 1000);
    const tokenMs = perTokenMs(row);
    if (tokenMs !== undefined) this.perToken.observe(tokenMs / 1000);
  }

  reading(atMs: number): Reading {
    const { requests, promptTokens, cachedTokens, outputTokens, costNano, savedNano } = this;
    return {
      atMs,
      counters: {
        tokensIn: promptTokens,
        tokensOut: outputTokens,
        prefixQueries: promptTokens,
        prefixHits: cachedTokens,
        fleetRequests: OUTCOMES.reduce((sum, outcome) => sum + requests[outcome], 0),
        refused: requests.refused,
        cost: costNano / NANO,
        savedCost: savedNano / NANO,
      },
      running: undefined,
      seats: undefined,
      memoryBytes: undefined,
      waiting: undefined,
      kvUse: undefined,
      firstToken: new Map(this.firstToken.buckets()),
      perToken: new Map(this.perToken.buckets()),
      queue: new Map(),
    };
  }
}

/** Only a stream shows its client the first token before the last. */
function firstTokenMs({ isStream, firstByteMs, outcome, status }: RequestRow): number | undefined {
  const isError = outcome === "answered" && status >= 400;
  return isStream && !isError ? firstByteMs : undefined;
}

/**
 * Time from first to last token of a complete stream, divided by the tokens after the first. Undefined for several
 * parallel answers and for estimated counts.
 */
function perTokenMs(row: RequestRow): number | undefined {
  const firstMs = firstTokenMs(row);
  const [answer, ...others] = row.attempts.filter(({ outcome }) => outcome === "answered");
  if (firstMs === undefined || row.outcome !== "answered" || row.numAnswers !== 1 || others.length > 0)
    return undefined;
  const { output = 0, isEstimated = false } = answer?.counts ?? {};
  return isEstimated || output < 2 ? undefined : (row.totalMs - firstMs) / (output - 1);
}

type Counter = readonly [name: string, help: string, totalOf: (figures: Figures) => number];

/** The names follow vLLM's. */
const PREFIX = "millrace_tenant:";
const COUNTERS: readonly Counter[] = [
  ["prompt_tokens_total", "Prompt tokens of the tenant's requests, cached ones included", (own) => own.promptTokens],
  ["prompt_tokens_cached_total", "Prompt tokens read from prefix caches", (own) => own.cachedTokens],
  ["generation_tokens_total", "Tokens generated", (own) => own.outputTokens],
  ["cost_dollars_total", "Dollars that requests cost", (own) => own.costNano / NANO],
  ["saved_dollars_total", "Dollars that caches and cascades saved", (own) => own.savedNano / NANO],
];
const TIMES = [
  ["time_to_first_token_seconds", "Arrival to the first byte of a stream", "firstToken"],
  ["request_time_per_output_token_seconds", "First to last token, divided by the tokens after the first", "perToken"],
] as const;

export class TenantFigures {
  readonly #tenants = new Map<string, Figures>();
  readonly #other = new Figures(OTHER);
  /** Whether a tenant was refused a place since the last look. */
  #isFull = false;

  /** Counts a request at its end. */
  count(row: RequestRow): void {
    this.#placeOf(row.tenant, row.beganMs + row.totalMs).count(row);
  }

  /**
   * Gives a tenant a place, or keeps its place.
   * @returns the name of its figures: its own, or `OTHER`
   */
  placeFor(tenant: string, nowMs: number): string {
    return this.#placeOf(tenant, nowMs).name;
  }

  /**
   * Frees the places of tenants that are idle while others wait, and of tenants that left the gateway. Call it
   * regularly.
   */
  look(nowMs: number, isKnown: (tenant: string) => boolean): void {
    for (const [tenant, { latestMs }] of this.#tenants) {
      const isIdle = this.#isFull && Math.abs(nowMs - latestMs) > IDLE_MS;
      if (isIdle || !isKnown(tenant)) this.#tenants.delete(tenant);
    }
    this.#isFull = false;
  }

  /**
   * Readings by the dashboard's keys. The nameless tenant of a gateway without keys is left out: its figures equal the
   * server's.
   */
  readings(atMs: number, wanted?: ReadonlySet<string>): ReadonlyMap<string, Reading> {
    const named = this.#all().filter(({ name }) => name !== "");
    const keyed = named.map((figures) => [keyOf({ kind: "tenant", name: figures.name }), figures] as const);
    const own = keyed.filter(([key]) => wanted?.has(key) ?? true);
    return new Map(own.map(([key, figures]) => [key, figures.reading(atMs)]));
  }

  /** In Prometheus' text format. */
  text(): string {
    const all = this.#all().map((figures) => [labelsText({ tenant: figures.name }), figures] as const);
    const outcomes = all.flatMap(([labels, { requests }]) =>
      OUTCOMES.map((outcome) => `${PREFIX}requests_total{${labels},outcome="${outcome}"} ${requests[outcome]}`),
    );
    const help = `Ended requests, by outcome: ${OUTCOMES.join(", ")}`;
    const counters = COUNTERS.map(([name, about, totalOf]) => {
      const lines = all.map(([labels, figures]) => `${PREFIX}${name}{${labels}} ${totalOf(figures)}`);
      return familyText(`${PREFIX}${name}`, about, "counter", lines);
    });
    const times = TIMES.map(([name, about, key]) => {
      const full = `${PREFIX}${name}`;
      const lines = all.flatMap(([labels, { [key]: own }]) =>
        histogramLines(full, labels, own.buckets(), own.sumSeconds),
      );
      return familyText(full, about, "histogram", lines);
    });
    return [familyText(`${PREFIX}requests_total`, help, "counter", outcomes), ...counters, ...times].join("\n");
  }

  #placeOf(tenant: string, nowMs: number): Figures {
    const figures = this.#tenants.get(tenant) ?? this.#newPlace(tenant);
    figures.latestMs = nowMs;
    return figures;
  }

  #newPlace(tenant: string): Figures {
    if (tenant === OTHER) return this.#other;
    if (this.#tenants.size >= MOST_TENANTS - 1) {
      this.#isFull = true;
      return this.#other;
    }
    const figures = new Figures(tenant);
    this.#tenants.set(tenant, figures);
    return figures;
  }

  /** Includes `OTHER` once it has figures. */
  #all(): readonly Figures[] {
    return [...this.#tenants.values(), ...(this.#other.latestMs > 0 ? [this.#other] : [])];
  }
}
