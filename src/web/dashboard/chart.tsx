/** Figures over time. The chart library loads with the first chart. */
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { timeAxis } from "./axis.js";
import type { ServerEvent } from "./load.js";

interface Series {
  readonly label: string;
  readonly values: readonly (number | undefined)[];
}

interface ChartProps {
  readonly title: string;
  readonly unit: string;
  /** Milliseconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly events: readonly ServerEvent[];
  /** A dashed line; absent: the chart has none. */
  readonly target?: number | undefined;
}

const HEIGHT = 160;
const COLORS = ["--line-1", "--line-2", "--line-3"];
const TARGET_COLOR = "--warn";
const TARGET_DASHES = [6, 4];

const colorOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function shownNumber(value: number | undefined): string {
  if (value === undefined) return "–";
  if (Number.isInteger(value) || value >= 100) return Math.round(value).toLocaleString("en");
  // Small values, such as dollars, get two digits.
  return value < 0.1 ? String(Number(value.toPrecision(2))) : value.toFixed(value >= 1 ? 1 : 2);
}

type Shown = Pick<ChartProps, "times" | "series" | "target">;

/** The target's line comes last, and exists without a target too: a chart's lines are fixed when it is created. */
function dataOf({ times, series, target }: Shown): uPlot.AlignedData {
  return [
    times.map((ms) => ms / 1000),
    ...series.map(({ values }) => values.map((value) => value ?? null)),
    times.map(() => target ?? null),
  ];
}

/** Draws a line for each event over the plot's own canvas. */
function placeMarks({ over, scales, valToPos }: uPlot, events: readonly ServerEvent[]): void {
  for (const mark of over.querySelectorAll(".mark")) mark.remove();
  const { min, max } = scales.x!;
  for (const { atMs, kind, text } of events) {
    if (atMs / 1000 < (min ?? 0) || atMs / 1000 > (max ?? 0)) continue;
    const mark = document.createElement("i");
    mark.className = `mark mark-${kind}`;
    mark.title = text;
    mark.style.left = `${valToPos(atMs / 1000, "x")}px`;
    over.append(mark);
  }
}

export function Chart({ title, unit, times, series, events, target }: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef({ times, series, events, target });
  latest.current = { times, series, events, target };
  useEffect(() => {
    let isOver = false;
    // The reference loses the element before this effect ends.
    const holder = element.current!;
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: holder.clientWidth, height: HEIGHT }));
    void import("uplot").then(({ default: Plot }) => {
      if (isOver) return;
      const ink = colorOf("--soft");
      const axis = { stroke: ink, grid: { stroke: colorOf("--line"), width: 1 }, ticks: { show: false } };
      const lines = latest.current.series.map(({ label }, i) => ({ label, stroke: colorOf(COLORS[i]!), width: 1.5 }));
      const ofTarget = { label: "target", stroke: colorOf(TARGET_COLOR), width: 1.5, dash: TARGET_DASHES };
      const options: uPlot.Options = {
        width: holder.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { range: () => timeAxis(latest.current.times) },
          y: { range: (_, __, high) => [0, high > 0 ? 1.1 * high : 1] },
        },
        axes: [axis, { ...axis, size: 56 }],
        series: [{}, ...lines, ofTarget],
        hooks: { draw: [(drawn) => placeMarks(drawn, latest.current.events)] },
      };
      plot.current = new Plot(options, dataOf(latest.current), holder);
      observer.observe(holder);
    });
    return () => {
      isOver = true;
      observer.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, []);
  useEffect(() => plot.current?.setData(dataOf({ times, series, target })), [times, series, events, target]);
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        {series.map(({ label, values }, i) => (
          <span key={label} class={`key-${i + 1}`}>
            {label} <b>{shownNumber(values.at(-1))}</b> {unit}
          </span>
        ))}
        {target !== undefined && (
          <span class="key-target">
            target of p95 <b>{shownNumber(target)}</b> {unit}
          </span>
        )}
      </figcaption>
      <div ref={element} aria-hidden="true" />
    </figure>
  );
}
