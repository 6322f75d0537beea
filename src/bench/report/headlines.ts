/**
 * The headline figures of a page. They come from comparable cells only: no headline uses a cell in which a server has
 * void runs only, and when such a cell is an end of the load range, the headline has no figure instead of another
 * cell's.
 */

import type { Estimate } from "../measure/intervals.js";
import type { PlannedCell } from "../results/schema.js";
import type { CellGains } from "./ablation-tables.js";
import { type CellSummary, comparableCells, type Ratios } from "./summary.js";
import { figure, milliseconds, NONE } from "./words.js";

export interface Headline {
  readonly label: string;
  readonly value: string;
  /** The figure's cell, or the reason why there is no figure. */
  readonly note: string;
}

function ratioHeadline(label: string, { value, low, high }: Estimate): Headline {
  const isKnown = low !== undefined && high !== undefined;
  const note = isKnown ? `95 %: ${low.toFixed(2)} to ${high.toFixed(2)}` : "no interval: fewer than three rounds";
  return { label, value: `${value.toFixed(2)} ×`, note };
}

const nothing = (label: string, note: string): Headline => ({ label, value: NONE, note });

/** Headlines of two servers: the first relative to the second. */
export function ratioHeadlines({ cells, throughput, isVoid }: Ratios): Headline[] {
  const together = "output tokens/s, all cells together";
  const sound = cells.filter((cell) => cell.throughput !== undefined && !cell.isVoid);
  const overall =
    throughput === undefined || isVoid
      ? nothing(together, "some cell has no round that counts for both")
      : ratioHeadline(together, throughput);
  const extremes = sound.toSorted((a, b) => b.throughput!.value - a.throughput!.value);
  const ends = extremes.length > 1 ? [extremes[0]!, extremes.at(-1)!] : extremes;
  const ttft = sound.find((cell) => cell.ttft !== undefined);
  const headlines = [
    overall,
    ...ends.map(({ cell, throughput: own }) => ratioHeadline(`output tokens/s, ${cell.name}`, own!)),
  ];
  if (ttft !== undefined) headlines.push(ratioHeadline(`TTFT, ${ttft.cell.name}: less is better`, ttft.ttft!));
  return headlines;
}

/** Headlines of an ablation: all together ÷ vanilla. */
export function gainHeadlines(gains: readonly CellGains[]): Headline[] {
  return gains.flatMap(({ cell, together }) =>
    together?.throughput === undefined || together.isVoid
      ? []
      : ratioHeadline(`output tokens/s, ${cell.name}`, together.throughput),
  );
}

const loadOf = ({ load }: PlannedCell): number => load.concurrency ?? load.ratePerS ?? 0;

/** The cells of each workload at the lowest or the highest load. */
function endsOfLoad(summaries: readonly CellSummary[], isLeast: boolean): CellSummary[] {
  const sign = isLeast ? 1 : -1;
  return summaries.filter((each) =>
    summaries.every(
      (other) =>
        other.cell.workloadName !== each.cell.workloadName || sign * (loadOf(other.cell) - loadOf(each.cell)) >= 0,
    ),
  );
}

/** Headlines of one server: the ends of its measured range. */
export function resultHeadlines(summaries: readonly CellSummary[]): Headline[] {
  const sound = comparableCells(summaries);
  const missing = (isLeast: boolean) => endsOfLoad(summaries, isLeast).find((each) => !sound.includes(each));
  const hasOneTarget = new Set(summaries.map((each) => each.target)).size === 1;
  const headline = (
    label: string,
    isLeast: boolean,
    figureOf: (summary: CellSummary) => number | undefined,
    text: (value: number) => string,
    order: "most" | "least",
  ): Headline[] => {
    const full = `${label}, ${order}`;
    if (!summaries.some((each) => figureOf(each) !== undefined)) return [];
    const gap = missing(isLeast);
    if (gap !== undefined) return [nothing(full, `no run of ${gap.cell.name} counts for every server`)];
    const ranked = sound
      .flatMap((each) => ({ each, value: figureOf(each) ?? Number.NaN }))
      .filter(({ value }) => Number.isFinite(value))
      .sort((a, b) => (order === "most" ? b.value - a.value : a.value - b.value));
    const [best] = ranked;
    if (best === undefined) return [nothing(full, "not measured")];
    const { cell, target } = best.each;
    return [{ label: full, value: text(best.value), note: hasOneTarget ? cell.name : `${cell.name}, ${target}` }];
  };
  return [
    ...headline("output tokens/s", false, (each) => each.outputTokensPerS.median, figure, "most"),
    ...headline("tokens/s for one user", true, (each) => each.tokensPerSPerUser?.median, figure, "most"),
    ...headline("time to first token, p50", true, (each) => each.ttftMs?.percentiles.p50, milliseconds, "least"),
    ...headline("cost of a million output tokens", false, (each) => each.cost?.perMillionOutput, figure, "least"),
  ];
}
