/**
 * Exemplars: the trace of the last request in each bucket of a histogram, so that a click on a slow bucket finds a slow
 * trace. Prometheus' own text format has none; scrapers that accept OpenMetrics get that format.
 */
import { labelsText } from "./metric-text.js";

export const OPEN_METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8";

export interface MetricsText {
  readonly text: string;
  readonly contentType: string;
}

interface Exemplar {
  readonly traceId: string;
  readonly value: number;
  readonly atMs: number;
}

/** Exemplars of one histogram. Its buckets and the values of its labels bound their number. */
export class Exemplars {
  /** Key: the selector of a bucket's line. */
  readonly #bySeries = new Map<string, Exemplar>();

  /** @param buckets upper ends, ascending */
  constructor(
    private readonly metric: string,
    private readonly buckets: readonly number[],
  ) {}

  /** @param labels of the observed value, in the histogram's order */
  add(labels: Readonly<Record<string, string>>, value: number, traceId: string): void {
    const end = this.buckets.find((bucket) => value <= bucket);
    const le = end === undefined ? "+Inf" : String(end);
    const series = `${this.metric}_bucket{${labelsText({ le, ...labels })}}`;
    this.#bySeries.set(series, { traceId, value, atMs: Date.now() });
  }

  of(series: string): Exemplar | undefined {
    return this.#bySeries.get(series);
  }
}

const COUNTER = /^# TYPE (\S+)_total counter$/gm;

/** @param text in Prometheus' format @returns the same metrics in OpenMetrics' text format, with exemplars */
export function toOpenMetrics(text: string, exemplars: readonly Exemplars[]): string {
  // OpenMetrics puts the suffix into the samples' names, but not into the family's.
  const counters = new Set([...text.matchAll(COUNTER)].map(([, family]) => `${family}_total`));
  const lines = text.split("\n").flatMap((line): string[] => {
    if (line === "") return [];
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind !== undefined)
      return [`# ${kind} ${counters.has(name!) ? name!.slice(0, -"_total".length) : name} ${rest}`];
    const found = exemplars.map((each) => each.of(line.slice(0, line.lastIndexOf(" ")))).find(Boolean);
    if (found === undefined) return [line];
    return [`${line} # {trace_id="${found.traceId}"} ${found.value} ${found.atMs / 1000}`];
  });
  return `${lines.join("\n")}\n# EOF\n`;
}

/** Whether a scraper's Accept header asks for OpenMetrics. Prometheus does, and prefers it. */
export const acceptsOpenMetrics = (accept: string | undefined): boolean =>
  accept?.includes("application/openmetrics-text") ?? false;
