/** The report's charts, as SVG with colours from the page: c0, c1, … are the targets'. */
import type { Estimate } from "../measure/intervals.js";
import {
  escapeXml,
  linearScale,
  lineFrom,
  logScale,
  logTicks,
  niceTicks,
  pathThrough,
  round,
  type Scale,
  type Span,
  textAt,
} from "./svg.js";
import { figure, milliseconds } from "./words.js";

/** Width of every chart; the page scales it. */
export const WIDTH = 460;
/** Height of charts without rows. */
export const HEIGHT = 290;
const PLOT = { left: 58, right: WIDTH - 18, top: 30, bottom: HEIGHT - 42 };

/** Size of a point's label, in the charts' font. */
const LABEL = { charWidth: 7, height: 12, gap: 8 };

interface Point {
  readonly x: number;
  readonly y: number;
  readonly low?: number | undefined;
  readonly high?: number | undefined;
  /** Label next to the point. */
  readonly label?: string;
  /** Void points are hollow. */
  readonly isVoid: boolean;
}

export interface Series {
  readonly name: string;
  /** Index of the colour. */
  readonly index: number;
  readonly points: readonly Point[];
}

/** A limit for a series, at some points of the horizontal axis. */
export interface LimitLine {
  readonly name: string;
  readonly index: number;
  readonly points: readonly (readonly [x: number, y: number])[];
}

interface LineChart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  /** Whether the horizontal axis is logarithmic, for doubling numbers of clients. */
  readonly isDoubling: boolean;
  readonly series: readonly Series[];
  readonly limits?: readonly LimitLine[];
}

/** How far above the measured values the chart extends for a limit; a higher limit is cut off. */
const LIMIT_ROOM = 1.5;

function svg(title: string, height: number, parts: readonly string[]): string {
  const label = escapeXml(title);
  return `<svg viewBox="0 0 ${WIDTH} ${round(height)}" role="img" aria-label="${label}">${parts.join("")}</svg>`;
}

export function lineChart({ title, xLabel, yLabel, isDoubling, series, limits = [] }: LineChart): string {
  const points = series.flatMap((each) => each.points);
  if (points.length === 0) return "";
  const highest = Math.max(...points.map((point) => point.high ?? point.y));
  const highestLimit = Math.max(0, ...limits.flatMap((limit) => limit.points.map(([, value]) => value)));
  const yTicks = niceTicks(1.04 * Math.max(highest, Math.min(highestLimit, LIMIT_ROOM * highest)), 5);
  const y = linearScale({ from: 0, to: yTicks.at(-1)! }, { from: PLOT.bottom, to: PLOT.top });
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const xTicks = isDoubling ? xs : niceTicks(1.06 * xs.at(-1)!, 5);
  const inset = { from: PLOT.left + 14, to: PLOT.right - 14 };
  const x = isDoubling
    ? logScale({ from: xs[0]!, to: Math.max(xs.at(-1)!, 2 * xs[0]!) }, inset)
    : linearScale({ from: 0, to: xTicks.at(-1)! }, { from: PLOT.left, to: PLOT.right });
  const parts = [
    ...yTicks.map(
      (tick) =>
        lineFrom(PLOT.left, y(tick), PLOT.right, y(tick), 'class="grid"') +
        textAt(PLOT.left - 8, y(tick) + 4, axisFigure(tick), 'class="tick" text-anchor="end"'),
    ),
    ...xTicks.map((tick) => textAt(x(tick), PLOT.bottom + 17, axisFigure(tick), 'class="tick" text-anchor="middle"')),
    textAt((PLOT.left + PLOT.right) / 2, HEIGHT - 6, xLabel, 'class="axis" text-anchor="middle"'),
    textAt(4, 11, yLabel, 'class="axis"'),
    ...limits.map((limit) => limitPath(limit, x, y)),
    ...seriesWithLabels(series, x, y),
  ];
  return svg(title, HEIGHT, parts);
}

function limitPath({ name, index, points }: LimitLine, x: Scale, y: Scale): string {
  const path = pathThrough(
    cutAbove(
      points.map(([at, value]) => [x(at), y(value)] as const),
      PLOT.top,
    ),
  );
  return path === ""
    ? ""
    : `<path d="${path}" class="limit c${index}"><title>${escapeXml(`${name}: the roofline`)}</title></path>`;
}

/** Cuts a rising line at the upper edge. */
function cutAbove(points: readonly (readonly [number, number])[], top: number): (readonly [number, number])[] {
  const firstOut = points.findIndex(([, y]) => y < top);
  if (firstOut < 0) return [...points];
  const inside = points.slice(0, firstOut);
  const [last, next] = [inside.at(-1), points[firstOut]!];
  if (last === undefined) return [];
  const share = (last[1] - top) / (last[1] - next[1]);
  return [...inside, [last[0] + share * (next[0] - last[0]), top]];
}

function axisFigure(value: number): string {
  return value >= 10_000 ? `${round(value / 1000)}k` : String(round(100 * value) / 100);
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

const overlaps = (a: Box, b: Box): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** Finds free places for labels. */
class LabelPlaces {
  readonly #taken: Box[];

  constructor(points: readonly (readonly [number, number])[]) {
    this.#taken = points.map(([x, y]) => ({ left: x - 4.5, top: y - 4.5, right: x + 4.5, bottom: y + 4.5 }));
  }

  /** Left end and baseline of the label; undefined if all sides are taken: the point's tooltip has the label too. */
  take(x: number, y: number, label: string): readonly [number, number] | undefined {
    const width = LABEL.charWidth * label.length;
    const { gap, height } = LABEL;
    for (const left of [x + gap, x - gap - width]) {
      for (const baseline of [y - gap + 1, y + gap + height - 4]) {
        const box = { left, top: baseline - height, right: left + width, bottom: baseline };
        if (left < PLOT.left || box.right > PLOT.right || this.#taken.some((each) => overlaps(each, box))) continue;
        this.#taken.push(box);
        return [left, baseline];
      }
    }
    return undefined;
  }
}

function seriesWithLabels(series: readonly Series[], x: Scale, y: Scale): string[] {
  const places = new LabelPlaces(series.flatMap(({ points }) => points.map((point) => [x(point.x), y(point.y)])));
  return series.map((each) => seriesMarks(each, x, y, places));
}

function seriesMarks({ name, index, points }: Series, x: Scale, y: Scale, places: LabelPlaces): string {
  const line = pathThrough(points.map((point) => [x(point.x), y(point.y)]));
  const marks = points.map((point) => {
    const [cx, cy] = [x(point.x), y(point.y)];
    const range =
      point.low === undefined || point.high === undefined ? "" : `, ${figure(point.low)} to ${figure(point.high)}`;
    const hint = escapeXml(`${name}${point.label === undefined ? "" : `, ${point.label}`}: ${figure(point.y)}${range}`);
    const whisker = range === "" ? "" : lineFrom(cx, y(point.low!), cx, y(point.high!), 'class="whisker"');
    const place = point.label === undefined ? undefined : places.take(cx, cy, point.label);
    const label = place === undefined ? "" : textAt(place[0], place[1], point.label!, 'class="tick"');
    const circle = `<circle cx="${round(cx)}" cy="${round(cy)}" r="4.5" class="${point.isVoid ? "void" : "dot"}"><title>${hint}</title></circle>`;
    return whisker + circle + label;
  });
  return `<g class="c${index}"><path d="${line}" class="line"/>${marks.join("")}</g>`;
}

export interface Ridge {
  readonly label: string;
  readonly index: number;
  /** Milliseconds, ascending. */
  readonly samples: readonly number[];
}

const RIDGE = { left: 96, right: WIDTH - 94, height: 40, numBins: 72, fewest: 12 };

/**
 * A row for each cell: the distribution of its samples on a logarithmic axis, with the median and the 95th percentile.
 */
export function ridgeChart(title: string, rows: readonly Ridge[]): string {
  const filled = rows.filter((row) => row.samples.length > 0 && row.samples.at(-1)! > 0);
  if (filled.length === 0) return "";
  const span = {
    from: 0.9 * Math.min(...filled.map((row) => row.samples.find((ms) => ms > 0)!)),
    to: 1.1 * Math.max(...filled.map((row) => row.samples.at(-1)!)),
  };
  const bottom = 12 + filled.length * RIDGE.height;
  const x = logScale(span, { from: RIDGE.left, to: RIDGE.right });
  const ticks = logTicks(span);
  const parts = [
    ...ticks.map(
      (tick) =>
        lineFrom(x(tick), 6, x(tick), bottom, 'class="grid"') +
        textAt(x(tick), bottom + 16, axisFigure(tick), 'class="tick" text-anchor="middle"'),
    ),
    textAt(RIDGE.right + 10, bottom + 16, "p50 · p95, ms", 'class="axis"'),
    ...filled.map((row, i) => ridge(row, span, x, 8 + (i + 1) * RIDGE.height)),
  ];
  return svg(title, bottom + 26, parts);
}

function ridge({ label, index, samples }: Ridge, span: Span, x: (value: number) => number, base: number): string {
  const at = (q: number) => samples[Math.max(0, Math.ceil(q * samples.length) - 1)]!;
  const [p50, p95] = [at(0.5), samples.length >= 20 ? at(0.95) : undefined];
  const top = base - RIDGE.height + 6;
  const shape =
    samples.length < RIDGE.fewest
      ? samples
          .map((ms) => `<circle cx="${round(x(Math.max(ms, span.from)))}" cy="${base - 8}" r="3" class="area"/>`)
          .join("")
      : `<path d="${densityPath(samples, span, base, base - top)}" class="area"/>`;
  const hint = escapeXml(`${label}: ${samples.length} requests, p50 ${milliseconds(p50)}, p95 ${milliseconds(p95)}`);
  const mark = (ms: number | undefined, kind: string) =>
    ms === undefined
      ? ""
      : lineFrom(x(Math.max(ms, span.from)), base, x(Math.max(ms, span.from)), base - 20, `class="${kind}"`);
  const figures = p95 === undefined ? figure(p50) : `${figure(p50)} · ${figure(p95)}`;
  return [
    `<g class="c${index}"><title>${hint}</title>${shape}`,
    lineFrom(RIDGE.left, base, RIDGE.right, base, 'class="base"'),
    mark(p50, "median") + mark(p95, "far"),
    textAt(RIDGE.left - 8, base - 4, label, 'class="row" text-anchor="end"'),
    textAt(RIDGE.right + 10, base - 4, figures, 'class="row"'),
    "</g>",
  ].join("");
}

/** A smoothed histogram on the logarithmic axis, as high as the row. */
function densityPath(samples: readonly number[], span: Span, base: number, height: number): string {
  const bin = logScale(span, { from: 0, to: RIDGE.numBins });
  let counts = new Array<number>(RIDGE.numBins + 1).fill(0);
  for (const ms of samples) counts[Math.round(bin(Math.max(ms, span.from)))]!++;
  for (let pass = 0; pass < 3; pass++) {
    counts = counts.map((count, i) => 0.5 * count + 0.25 * ((counts[i - 1] ?? 0) + (counts[i + 1] ?? 0)));
  }
  const most = Math.max(...counts);
  const left = linearScale({ from: 0, to: RIDGE.numBins }, { from: RIDGE.left, to: RIDGE.right });
  const outline = counts.map((count, i) => [left(i), base - (count / most) * height] as const);
  return `${pathThrough([[RIDGE.left, base], ...outline, [RIDGE.right, base]])}Z`;
}

interface Gain {
  readonly label: string;
  readonly alone: Estimate | undefined;
  readonly away: Estimate | undefined;
}

/** Space between the names and the plot for the figures of ratios below 1. */
const GAIN = { names: 126, left: 166, right: WIDTH - 40, height: 34 };

/** A row for each layer: its gain alone and, below, the loss without it, as ratios on a logarithmic axis around 1. */
export function gainChart(title: string, rows: readonly Gain[]): string {
  const values = rows.flatMap(({ alone, away }) =>
    [alone, away].flatMap((each) => (each === undefined ? [] : each.value)),
  );
  if (values.length === 0) return "";
  const span = { from: 0.9 * Math.min(0.8, ...values), to: 1.1 * Math.max(1.25, ...values) };
  const bottom = 8 + rows.length * GAIN.height;
  const x = logScale(span, { from: GAIN.left, to: GAIN.right });
  const within = (value: number) => Math.min(span.to, Math.max(span.from, value));
  const mark = (gain: Estimate | undefined, y: number, hint: string) => {
    if (gain === undefined) return "";
    const { value, low, high } = gain;
    const bar = lineFrom(x(1), y, x(value), y, `class="line"`);
    const range =
      low === undefined || high === undefined ? "" : lineFrom(x(within(low)), y, x(within(high)), y, 'class="whisker"');
    const circle = `<circle cx="${round(x(value))}" cy="${round(y)}" r="4" class="dot"><title>${escapeXml(hint)}</title></circle>`;
    const side = value < 1 ? -8 : 8;
    const anchor = value < 1 ? "end" : "start";
    return `${bar}${range}${circle}${textAt(x(value) + side, y + 4, value.toFixed(2), `class="tick" text-anchor="${anchor}"`)}`;
  };
  const parts = [
    ...logTicks(span).map(
      (tick) =>
        lineFrom(x(tick), 4, x(tick), bottom, 'class="grid"') +
        textAt(x(tick), bottom + 16, axisFigure(tick), 'class="tick" text-anchor="middle"'),
    ),
    lineFrom(x(1), 4, x(1), bottom, 'class="axis-line"'),
    ...rows.map(({ label, alone, away }, i) => {
      const y = 8 + (i + 0.5) * GAIN.height;
      const name = textAt(GAIN.names, y + 4, label, 'class="row" text-anchor="end"');
      const both = [
        `<g class="c0">${mark(alone, y - 7, `${label} alone`)}</g>`,
        `<g class="c1">${mark(away, y + 8, `all together ÷ all but ${label}`)}</g>`,
      ];
      return name + both.join("");
    }),
  ];
  return svg(title, bottom + 24, parts);
}
