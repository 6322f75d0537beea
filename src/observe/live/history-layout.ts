/**
 * The figures of a load in a history, and their order in a row of numbers. Figures are 32-bit floats with seven digits,
 * so
 * that a row takes half the room; the time needs more digits and takes two floats.
 */
import type { Load } from "./load.js";

type QuantilesName = "ttft" | "tpot" | "queue";
type NumberName = Exclude<keyof Load, QuantilesName>;

interface Columns {
  /** Begins the file; files with another title are not read. */
  readonly title: string;
  /** In order, after the time. */
  readonly numbers: readonly Exclude<NumberName, "atMs">[];
  readonly quantiles: readonly QuantilesName[];
}

export interface HistoryLayout extends Columns {
  /**
   * Columns of files from an earlier version, with 64 bits for every number. Such files are rewritten in this layout.
   */
  readonly earlier: Columns;
}

const SHARES = ["p50", "p95", "p99"] as const;
const UNKNOWN = { p50: undefined, p95: undefined, p99: undefined };

const SERVER_1: Columns = {
  title: "millrace history, version 1",
  numbers: [
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

/** Layout for a server, a model or an instance. */
export const SERVER_LAYOUT: HistoryLayout = {
  title: "millrace history, version 2",
  numbers: [...SERVER_1.numbers, "promptShare", "evictedPerS", "prefixSavedPerS", "draftedPerS", "memoryBytes"],
  quantiles: SERVER_1.quantiles,
  earlier: SERVER_1,
};

const TENANT_1: Columns = {
  title: "millrace tenants, version 1",
  numbers: ["tokensInPerS", "tokensOutPerS", "requestsPerS", "refusedPerS", "prefixHits", "costPerH", "savedCostPerH"],
  quantiles: ["ttft", "tpot"],
};

export const TENANT_LAYOUT: HistoryLayout = {
  ...TENANT_1,
  title: "millrace tenants, version 2",
  earlier: TENANT_1,
};

/** The first number counts multiples of this, and the second the rest: each has at most 24 bits until the year 2527. */
const TIME_UNIT = 2 ** 20;
const NUM_TIMES = 2;
const DIGITS = 7;

const numFigures = ({ numbers, quantiles }: Columns): number => numbers.length + quantiles.length * SHARES.length;

/** Numbers of a row. */
export const rowLength = (layout: HistoryLayout): number => NUM_TIMES + numFigures(layout);

/** Time of a row; 0: the row has no figures. */
export const timeOf = (row: Float32Array): number => row[0]! * TIME_UNIT + row[1]!;

/** The time, the numbers, then the quantiles; NaN: an unknown figure. */
export const valuesOf = ({ numbers, quantiles }: Columns, load: Load): number[] => [
  Math.floor(load.atMs / TIME_UNIT),
  load.atMs % TIME_UNIT,
  ...numbers.map((name) => load[name] ?? Number.NaN),
  ...quantiles.flatMap((name) => SHARES.map((share) => load[name][share] ?? Number.NaN)),
];

export function loadOf(columns: Columns, row: Float32Array): Load {
  return loadAt(columns, timeOf(row), Array.from(row.subarray(NUM_TIMES), inDigits));
}

/** Rounds to the digits in a fifth of the time of `toPrecision`: a week has 20,000 figures. */
function inDigits(value: number): number {
  const size = Math.abs(value);
  if (Number.isNaN(value) || (Number.isInteger(value) && size < 10 ** DIGITS)) return value;
  if (size < 1e-9 || size >= 10 ** DIGITS) return Number(value.toPrecision(DIGITS));
  // Both whole numbers are exact, so the quotient is the nearest number with these digits.
  const power = 10 ** (DIGITS - 1 - Math.floor(Math.log10(size)));
  return Math.round(value * power) / power;
}

function loadAt({ numbers, quantiles }: Columns, atMs: number, figures: ArrayLike<number>): Load {
  const known = (at: number): number | undefined => (Number.isNaN(figures[at]!) ? undefined : figures[at]);
  // Allocates no intermediate lists: a week has thousands of figures.
  const load: Record<string, unknown> = { atMs, ttft: UNKNOWN, tpot: UNKNOWN, queue: UNKNOWN };
  let at = 0;
  for (const name of numbers) load[name] = known(at++);
  for (const name of quantiles) load[name] = { p50: known(at++), p95: known(at++), p99: known(at++) };
  return load as unknown as Load;
}

/** Numbers of a row of an earlier file. */
export const earlierRowLength = ({ earlier }: HistoryLayout): number => 1 + numFigures(earlier);

/** An earlier file's row in this layout. Figures that the file lacks are unknown. */
export function convertedRow(layout: HistoryLayout, row: Float64Array): readonly number[] {
  return row[0] === 0 ? [] : valuesOf(layout, loadAt(layout.earlier, row[0]!, row.subarray(1)));
}
