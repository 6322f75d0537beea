/** Figures over time. The library that draws them is loaded with the first chart. */
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
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
}

const HEIGHT = 160;
/** A page that was just opened shows this much time. */
const FEWEST_SECONDS = 120;
const COLORS = ["--line-1", "--line-2", "--line-3"];

const colorOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function shownNumber(value: number | undefined): string {
  if (value === undefined) return "–";
  if (Number.isInteger(value) || value >= 100) return Math.round(value).toLocaleString("en");
  // Of small ones, such as dollars, two digits.
  return value < 0.1 ? String(Number(value.toPrecision(2))) : value.toFixed(value >= 1 ? 1 : 2);
}

function dataOf(times: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [times.map((ms) => ms / 1000), ...series.map(({ values }) => values.map((value) => value ?? null))];
}

/** A line for each event, over the plot's own canvas. */
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

export function Chart({ title, unit, times, series, events }: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef({ times, series, events });
  latest.current = { times, series, events };
  useEffect(() => {
    let isOver = false;
    // It is gone from the reference before this effect ends.
    const target = element.current!;
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: target.clientWidth, height: HEIGHT }));
    void import("uplot").then(({ default: Plot }) => {
      if (isOver) return;
      const ink = colorOf("--soft");
      const axis = { stroke: ink, grid: { stroke: colorOf("--line"), width: 1 }, ticks: { show: false } };
      const lines = latest.current.series.map(({ label }, i) => ({ label, stroke: colorOf(COLORS[i]!), width: 1.5 }));
      const { times: now, series: shown } = latest.current;
      const options: uPlot.Options = {
        width: target.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { range: (_, from, to) => [Math.min(from, to - FEWEST_SECONDS), to] },
          y: { range: (_, __, high) => [0, high > 0 ? 1.1 * high : 1] },
        },
        axes: [axis, { ...axis, size: 56 }],
        series: [{}, ...lines],
        hooks: { draw: [(drawn) => placeMarks(drawn, latest.current.events)] },
      };
      plot.current = new Plot(options, dataOf(now, shown), target);
      observer.observe(target);
    });
    return () => {
      isOver = true;
      observer.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, []);
  useEffect(() => plot.current?.setData(dataOf(times, series)), [times, series, events]);
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        {series.map(({ label, values }, i) => (
          <span key={label} class={`key-${i + 1}`}>
            {label} <b>{shownNumber(values.at(-1))}</b> {unit}
          </span>
        ))}
      </figcaption>
      <div ref={element} aria-hidden="true" />
    </figure>
  );
}
