/**
 * The two possible targets of monitoring: one server, or the gateway of a fleet, which shows its instances' figures
 * under
 * the same names.
 */
import { MillraceError } from "../core/errors.js";
import { LATENCY_BUCKETS_S } from "../core/latency-buckets.js";

export const KINDS = ["server", "fleet"] as const;

/** The standard port on which a collector listens for OTLP over HTTP. */
export const COLLECTOR_PORT = 4318;

export interface Watched {
  readonly kind: (typeof KINDS)[number];
  /** Prometheus' `job` label. */
  readonly job: string;
  /** host:port of each server or gateway. */
  readonly targets: readonly string[];
  /** 95 of 100 requests should have their first token within this time: one of LATENCY_BUCKETS_S. */
  readonly ttftSeconds: number;
  /** File with an operator's key, with which Prometheus reads a gateway's figures by tenant; undefined: it does not. */
  readonly tenantsKeyFile?: string | undefined;
}

/**
 * Prometheus' `job` label of figures by tenant, which have their own path.
 * @param job label of the other figures
 */
export const tenantsJob = (job: string): string => `${job}-tenants`;

/** The bucket end at this time: histograms count only at these. @throws invalid_option for a time between two ends */
export function bucketOf(seconds: number): number {
  const found = LATENCY_BUCKETS_S.find((bucket) => Math.abs(bucket - seconds) < 1e-9);
  if (found !== undefined) return found;
  const known = LATENCY_BUCKETS_S.map((bucket) => 1000 * bucket).join(", ");
  throw new MillraceError("invalid_option", `expected --ttft-ms to be one of ${known}, got ${1000 * seconds}`, {
    hint: "the histogram counts requests up to these times",
  });
}

/** The label for models, which differs between a server and a fleet. */
export const modelLabel = ({ kind }: Pick<Watched, "kind">): string => (kind === "server" ? "model_name" : "model");

/** Histogram of the time until an answer begins, as the clients of the server or fleet see it. */
export const firstTokenMetric = ({ kind }: Pick<Watched, "kind">): string =>
  kind === "server" ? "millrace:time_to_first_token_seconds" : "millrace_fleet:time_to_first_byte_seconds";

/** A bucket's `le` as a selector: Prometheus 3 writes whole numbers with a decimal point. */
export const untilBucket = (seconds: number): string =>
  Number.isInteger(seconds) ? `le=~"${seconds}([.]0)?"` : `le="${seconds}"`;
