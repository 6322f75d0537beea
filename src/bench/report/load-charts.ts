/** The charts of one workload under several loads: a line or a row for each server. */
import { isLadderCell } from "../ablation/cells.js";
import type { BenchReport, PlannedCell } from "../results/schema.js";
import { type LimitLine, lineChart, type Ridge, ridgeChart, type Series } from "./charts.js";
import { type CellSummary, frontierOf } from "./summary.js";

interface LoadFigure {
  readonly title: string;
  readonly note: string;
  /** SVG; empty if there is nothing to draw. */
  readonly drawing: string;
}

interface Charted {
  readonly charted: readonly CellSummary[];
  /** Servers in the order of their colours. */
  readonly names: readonly string[];
  readonly workloads: readonly string[];
}

/** The part of a report that is drawn against load; for an ablation, the ladder with its servers. */
export function chartedOf(report: BenchReport, summaries: readonly CellSummary[]): Charted {
  const isAblation = report.plan.ablation !== undefined;
  const charted = isAblation ? summaries.filter(({ cell }) => isLadderCell(cell)) : summaries;
  const names = report.targets
    .map((target) => target.name)
    .filter((name) => !isAblation || charted.some((summary) => summary.target === name));
  return { charted, names, workloads: [...new Set(charted.map((summary) => summary.cell.workloadName))] };
}

/** A cell's place on the horizontal axis; undefined for a trace. */
function loadOf({ load }: PlannedCell): number | undefined {
  if (load.kind === "closed") return load.concurrency;
  return load.kind === "open" ? load.ratePerS : undefined;
}

const isClosed = (summaries: readonly CellSummary[]): boolean =>
  summaries.every((summary) => summary.cell.load.kind === "closed");

const axisLabel = (summaries: readonly CellSummary[]): string =>
  isClosed(summaries) ? "requests at once" : "requests offered per second";

/** Limits that differ by less are drawn as one. */
const ALIKE = 0.03;

type Place = Omit<Series["points"][number], "isVoid">;

function seriesOf(
  summaries: readonly CellSummary[],
  names: readonly string[],
  placeOf: (summary: CellSummary) => Place | undefined,
): Series[] {
  return names.map((name, index) => ({
    name,
    index,
    points: summaries
      .filter((summary) => summary.target === name)
      .flatMap((summary) => {
        const place = placeOf(summary);
        return place === undefined ? [] : [{ ...place, isVoid: summary.isVoid }];
      })
      .sort((a, b) => a.x - b.x),
  }));
}

/** A figure of each server against load; empty if the loads have no order. */
function againstLoad(
  title: string,
  yLabel: string,
  summaries: readonly CellSummary[],
  names: readonly string[],
  figureOf: (summary: CellSummary) => Omit<Place, "x"> | undefined,
  limitOf?: (summary: CellSummary) => number | undefined,
): string {
  if (summaries.some((summary) => loadOf(summary.cell) === undefined)) return "";
  const series = seriesOf(summaries, names, (summary) => {
    const value = figureOf(summary);
    return value === undefined ? undefined : { ...value, x: loadOf(summary.cell) ?? 0 };
  });
  const limits = limitOf === undefined ? [] : limitLines(summaries, names, limitOf);
  return lineChart({ title, xLabel: axisLabel(summaries), yLabel, isDoubling: isClosed(summaries), series, limits });
}

/** Limit lines, one for servers with the same limit. */
function limitLines(
  summaries: readonly CellSummary[],
  names: readonly string[],
  limitOf: (summary: CellSummary) => number | undefined,
): LimitLine[] {
  const lines = names.map((name, index) => ({
    name,
    index,
    points: summaries
      .filter((summary) => summary.target === name)
      .flatMap((summary): (readonly [number, number])[] => {
        const limit = limitOf(summary);
        return limit === undefined ? [] : [[loadOf(summary.cell) ?? 0, limit]];
      })
      .sort(([a], [b]) => a - b),
  }));
  const isAlike = (a: LimitLine, b: LimitLine) =>
    a.points.every(([x, y]) => b.points.some((other) => other[0] === x && Math.abs(other[1] / y - 1) < ALIKE));
  return lines.filter(
    (line, i) => line.points.length > 0 && !lines.slice(0, i).some((earlier) => isAlike(line, earlier)),
  );
}

/** @param names of the servers, in the order of their colours */
export function throughputChart(title: string, summaries: readonly CellSummary[], names: readonly string[]): string {
  return againstLoad(
    title,
    "output tokens/s",
    summaries,
    names,
    ({ outputTokensPerS: { median: y, low, high } }) => ({ y, low, high }),
    ({ rooflineTokensPerS }) => rooflineTokensPerS,
  );
}

function frontierChart(summaries: readonly CellSummary[], names: readonly string[]): string {
  const series = seriesOf(frontierOf(summaries), names, (each) => ({
    x: each.tokensPerSPerUser!.median,
    y: each.outputTokensPerS.median,
    label: String(loadOf(each.cell) ?? ""),
  }));
  const [xLabel, yLabel] = ["tokens/s for each user", "output tokens/s"];
  return lineChart({ title: "Pareto frontier", xLabel, yLabel, isDoubling: false, series });
}

function ridges(
  workload: string,
  summaries: readonly CellSummary[],
  names: readonly string[],
  samplesOf: (summary: CellSummary) => readonly number[],
): Ridge[] {
  return summaries.map((each, i) => {
    // Only the first of the servers' adjacent rows has a name.
    const isFirst = summaries[i - 1]?.cell.name !== each.cell.name;
    return {
      label: isFirst ? each.cell.name.slice(workload.length + 2) : "",
      index: names.indexOf(each.target),
      samples: samplesOf(each),
    };
  });
}

/** @param names of the servers, in the order of their colours */
export function loadFigures(
  workload: string,
  summaries: readonly CellSummary[],
  names: readonly string[],
): readonly LoadFigure[] {
  const timesOf = (title: string, samplesOf: (summary: CellSummary) => readonly number[]): LoadFigure => ({
    title,
    note: "every request, logarithmic",
    drawing: ridgeChart(title, ridges(workload, summaries, names, samplesOf)),
  });
  return [
    {
      title: "Throughput",
      note: summaries.some((summary) => summary.rooflineTokensPerS !== undefined)
        ? "output tokens/s, median of runs, 95 % interval; dashed: the roofline"
        : "output tokens/s, median of runs, 95 % interval",
      drawing: throughputChart("Throughput", summaries, names),
    },
    {
      title: "Throughput in all against throughput per user",
      note: `Pareto frontier of the runs that count; beside each point, ${axisLabel(summaries)}`,
      drawing: frontierChart(summaries, names),
    },
    timesOf("Time to the first token", (each) => each.ttftsMs),
    timesOf("Time per further token", (each) => each.tpotsMs),
    {
      title: "Cost of a million output tokens",
      note: "price × time ÷ tokens",
      drawing: againstLoad("Cost", "per million output tokens", summaries, names, ({ cost }) =>
        cost === undefined ? undefined : { y: cost.perMillionOutput },
      ),
    },
    {
      title: "Cost of a thousand requests",
      note: "price × time ÷ requests",
      drawing: againstLoad("Cost", "per 1,000 requests", summaries, names, ({ cost }) =>
        cost === undefined ? undefined : { y: cost.perThousandRequests },
      ),
    },
  ];
}
