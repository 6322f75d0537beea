/** Which figures of a load a history keeps, and in which order they stand in a row of numbers. */
import type { Load } from "./load.js";

type QuantilesName = "ttft" | "tpot" | "queue";
type NumberName = Exclude<keyof Load, QuantilesName>;

export interface HistoryLayout {
  /** Begins the file: files of another layout are not read. */
  readonly title: string;
  /** The first is the time. */
  readonly numbers: readonly ["atMs", ...NumberName[]];
  readonly quantiles: readonly QuantilesName[];
}

const SHARES = ["p50", "p95", "p99"] as const;
const UNKNOWN = { p50: undefined, p95: undefined, p99: undefined };

/** Of a server, a model and an instance. */
export const SERVER_LAYOUT: HistoryLayout = {
  title: "millrace history, version 1",
  numbers: [
    "atMs",
    "tokensInPerS",
    "tokensOutPerS",
    "requestsPerS",
    "refusedPerS",
    "running",
    "waiting",
    "kvUse",
    "prefixHits",
    "acceptance",
    "hostShare",
    "preemptionsPerS",
    "savedPerS",
  ],
  quantiles: ["ttft", "tpot", "queue"],
};

export const TENANT_LAYOUT: HistoryLayout = {
  title: "millrace tenants, version 1",
  numbers: [
    "atMs",
    "tokensInPerS",
    "tokensOutPerS",
    "requestsPerS",
    "refusedPerS",
    "prefixHits",
    "costPerH",
    "savedCostPerH",
  ],
  quantiles: ["ttft", "tpot"],
};

/** Numbers of a row. */
export const rowLength = ({ numbers, quantiles }: HistoryLayout): number =>
  numbers.length + quantiles.length * SHARES.length;

/** The numbers, then the quantiles; NaN stands for a figure that is not known. */
export const valuesOf = ({ numbers, quantiles }: HistoryLayout, load: Load): number[] => [
  ...numbers.map((name) => load[name] ?? Number.NaN),
  ...quantiles.flatMap((name) => SHARES.map((share) => load[name][share] ?? Number.NaN)),
];

export function loadOf({ numbers, quantiles }: HistoryLayout, values: Float64Array): Load {
  const known = (at: number): number | undefined => (Number.isNaN(values[at]!) ? undefined : values[at]);
  const found = quantiles.map((name, i) => {
    const start = numbers.length + i * SHARES.length;
    return [name, Object.fromEntries(SHARES.map((share, j) => [share, known(start + j)]))];
  });
  const kept = numbers.map((name, at) => [name, known(at)]);
  return { ttft: UNKNOWN, tpot: UNKNOWN, queue: UNKNOWN, ...Object.fromEntries([...kept, ...found]) } as Load;
}
