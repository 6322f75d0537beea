/**
 * The two things that can be watched: one server, or the gateway of a fleet, which shows the figures of its instances
 * under the same names.
 */
import { MillraceError } from "../core/errors.js";
import { LATENCY_BUCKETS_S } from "../core/latency-buckets.js";

export const KINDS = ["server", "fleet"] as const;

/** Where a collector listens for OTLP over HTTP, as its clients expect it. */
export const COLLECTOR_PORT = 4318;

export interface Watched {
  readonly kind: (typeof KINDS)[number];
  /** Prometheus' `job` label. */
  readonly job: string;
  /** host:port of each server or gateway. */
  readonly targets: readonly string[];
  /** 95 of 100 requests are to have their first token within this time: one of LATENCY_BUCKETS_S. */
  readonly ttftSeconds: number;
  /** File with an operator's key, by which Prometheus reads a gateway's figures by tenant; undefined: it does not. */
  readonly tenantsKeyFile?: string | undefined;
}

/**
 * Prometheus' `job` label of figures by tenant, which have a path of their own.
 * @param job that of the other figures
 */
export const tenantsJob = (job: string): string => `${job}-tenants`;

/** Histograms count at the ends of buckets only. @throws invalid_option for a time between them */
export function bucketOf(seconds: number): number {
  const found = LATENCY_BUCKETS_S.find((bucket) => Math.abs(bucket - seconds) < 1e-9);
  if (found !== undefined) return found;
  const known = LATENCY_BUCKETS_S.map((bucket) => 1000 * bucket).join(", ");
  throw new MillraceError("invalid_option", `expected --ttft-ms to be one of ${known}, got ${1000 * seconds}`, {
    hint: "the histogram counts requests up to these times",
  });
}

/** Label that tells models apart, in which a server and a fleet differ. */
export const modelLabel = ({ kind }: Pick<Watched, "kind">): string => (kind === "server" ? "model_name" : "model");

/** Histogram of the time until an answer begins, as its own clients see it. */
export const firstTokenMetric = ({ kind }: Pick<Watched, "kind">): string =>
  kind === "server" ? "millrace:time_to_first_token_seconds" : "millrace_fleet:time_to_first_byte_seconds";

/** A bucket's `le` as a selector: Prometheus 3 writes whole numbers with a decimal point. */
export const untilBucket = (seconds: number): string =>
  Number.isInteger(seconds) ? `le=~"${seconds}([.]0)?"` : `le="${seconds}"`;
