/** Formats figures for reports, with three significant digits. */
import type { Estimate } from "../measure/intervals.js";
import type { Interval, PercentileName } from "../measure/percentiles.js";
import { READ_LATE, SENT_LATE } from "../measure/run-metrics.js";
import type { Distribution } from "../results/schema.js";
import type { CellSummary, RunMedian } from "./summary.js";

/** Placeholder for a missing figure. */
export const NONE = "–";

/** Marks figures of void runs. */
export const voidMark = (isVoid: boolean | undefined): string => (isVoid === true ? " (void)" : "");

/** Marks a ratio of a single pair of runs, from which the spread of runs is unknown. */
export const pairMark = (ratio: Estimate | undefined): string => (ratio?.numRuns === 1 ? " (1 pair)" : "");

const LONGEST_FIGURE = 48;

/** Whether a table's text is too long for a column of figures. */
export const isSentence = (text: string): boolean => text.length > LONGEST_FIGURE;

/** Three significant digits; whole numbers from 100 on, with separators. */
export function figure(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

export function milliseconds(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return NONE;
  return value >= 10_000 ? `${figure(value / 1000)} s` : `${figure(value)} ms`;
}

export function percent(share: number | undefined): string {
  return share === undefined || !Number.isFinite(share) ? NONE : `${figure(100 * share)} %`;
}

/** A change in percent with its sign. @example signedPercent(0.05) // "+5.00 %" */
export function signedPercent(share: number | undefined): string {
  const text = percent(share);
  return share !== undefined && share >= 0 && text !== NONE ? `+${text}` : text;
}

export function percentileText(distribution: Distribution | undefined, name: PercentileName): string {
  return milliseconds(distribution?.percentiles[name]);
}

export function rangeText(interval: Interval | undefined): string {
  return interval === undefined ? NONE : `${figure(interval.low)} to ${milliseconds(interval.high)}`;
}

/** @example "412 (398 to 430)" */
export function withRange(value: RunMedian | undefined): string {
  if (value === undefined) return NONE;
  const { median, low, high } = value;
  return low === undefined ? figure(median) : `${figure(median)} (${figure(low)} to ${figure(high)})`;
}

/** @example "1.42 × (1.38 to 1.46)" */
export function ratioText(ratio: Estimate | undefined): string {
  if (ratio === undefined) return NONE;
  const { value, low, high } = ratio;
  const range = low === undefined || high === undefined ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`;
  return `${value.toFixed(2)} ×${range}`;
}

/** Variations between runs above which a figure gets a warning. */
const NOISY = 0.1;
const MAX_DRIFT = 0.1;

interface Warning {
  readonly text: string;
  /** Size of the effect; for several cells, the largest is shown. */
  readonly share?: number;
}

/** A warning about a cell's figures. */
function warningsOf(summary: CellSummary): Warning[] {
  const { isVoid, voidReasons, numFailed, numRequests, outputTokensPerS, hasPlateau, drift = 0 } = summary;
  const noise = outputTokensPerS.variation;
  return [
    ...voidReasons.map((reason) => ({ text: `${isVoid ? "VOID" : "some runs left out"}: ${reason}` })),
    ...(numFailed > 0 ? [{ text: "requests failed", share: numFailed / numRequests }] : []),
    ...(noise > NOISY ? [{ text: "runs differ (standard deviation)", share: noise }] : []),
    ...(hasPlateau ? [] : [{ text: "no plateau: throughput of the whole run, ramp and drain included" }]),
    ...(Math.abs(drift) > MAX_DRIFT ? [{ text: "throughput drifted within a run", share: Math.abs(drift) }] : []),
  ];
}

const CLIENT_REASONS: readonly string[] = [READ_LATE, SENT_LATE];
const CLIENT_TOO_SLOW =
  "VOID runs: measure longer answers or a larger model, leave the load generator a core of its own (--threads), or run it on another machine";

const MOST_PLACES = 4;

/** Lists each warning once, with the cells that it concerns. */
export function warningLines(summaries: readonly CellSummary[]): string[] {
  const about = new Map<string, { readonly place: string; readonly share: number | undefined }[]>();
  for (const summary of summaries) {
    const place = `${summary.cell.name} (${summary.target})`;
    for (const { text, share } of warningsOf(summary)) about.set(text, [...(about.get(text) ?? []), { place, share }]);
  }
  const lines = [...about].map(([text, all]) => {
    const shares = all.flatMap(({ share }) => share ?? []);
    const much = shares.length === 0 ? "" : `, ${shares.length > 1 ? "at most " : ""}${percent(Math.max(...shares))}`;
    const named = all.map(({ place }) => place).join(", ");
    const counted = `${all.length} of ${summaries.length} pairs of cell and server`;
    const where = all.length > 1 && all.length === summaries.length ? "everywhere" : undefined;
    return `${where ?? (all.length > MOST_PLACES ? counted : named)}: ${text}${much}`;
  });
  const isTooSlow = summaries.some((each) => each.voidReasons.some((reason) => CLIENT_REASONS.includes(reason)));
  return isTooSlow ? [...lines, CLIENT_TOO_SLOW] : lines;
}
