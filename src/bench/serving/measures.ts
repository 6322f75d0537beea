/** What is told of a scenario's records. */
import type { CompletionRecord } from "./client.js";

export interface ServingMeasures {
  /** Output tokens ÷ first request to last token. */
  readonly tokensPerS: number;
  readonly ttftP50Ms: number;
  readonly ttftP95Ms: number;
  /** Between one event's tokens and the next one's, of all requests. */
  readonly itlP50Ms: number;
  readonly itlP99Ms: number;
  /** Of the scenario in which a long prompt arrives: the other streams' p99 before it came and while it was computed. */
  readonly arrival?: { readonly beforeP99Ms: number; readonly duringP99Ms: number; readonly ttftMs: number };
}

/** The nearest-rank percentile. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

interface Gap {
  readonly endMs: number;
  readonly ms: number;
}

/** Times between events with tokens. */
function gapsOf({ tokenAtMs }: CompletionRecord): Gap[] {
  const events = [...new Set(tokenAtMs)];
  return events.slice(1).map((endMs, i) => ({ endMs, ms: endMs - events[i]! }));
}

export function measure(records: readonly CompletionRecord[], hasArrival: boolean): ServingMeasures {
  const startMs = Math.min(...records.map((record) => record.startMs));
  const endMs = Math.max(...records.map((record) => record.tokenAtMs.at(-1)!));
  const numTokens = records.reduce((sum, record) => sum + record.ids.length, 0);
  const ttfts = records.map((record) => record.tokenAtMs[0]! - record.startMs);
  const gaps = records.flatMap(gapsOf).map((gap) => gap.ms);
  return {
    tokensPerS: (1000 * numTokens) / (endMs - startMs),
    ttftP50Ms: percentile(ttfts, 0.5),
    ttftP95Ms: percentile(ttfts, 0.95),
    itlP50Ms: percentile(gaps, 0.5),
    itlP99Ms: percentile(gaps, 0.99),
    ...(hasArrival ? { arrival: arrivalOf(records) } : {}),
  };
}

function arrivalOf(records: readonly CompletionRecord[]): NonNullable<ServingMeasures["arrival"]> {
  const late = records.at(-1)!;
  const streams = records.slice(0, -1);
  const firstMs = late.tokenAtMs[0]!;
  // All streams run from their latest first token on.
  const fromMs = Math.max(...streams.map((record) => record.tokenAtMs[0]!));
  const gaps = streams.flatMap(gapsOf);
  const inside = (from: number, to: number) =>
    gaps.filter((gap) => gap.endMs > from && gap.endMs <= to).map((gap) => gap.ms);
  return {
    beforeP99Ms: percentile(inside(fromMs, late.startMs), 0.99),
    duringP99Ms: percentile(inside(late.startMs, firstMs), 0.99),
    ttftMs: firstMs - late.startMs,
  };
}
