/** The roofline of one device as SVG: the roof of each arithmetic, and each configuration's steps under it. */
import {
  escapeXml,
  lineFrom,
  logScale,
  logTicks,
  pathThrough,
  round,
  type Span,
  textAt,
} from "../../bench/report/svg.js";
import { rooflineOf } from "../../plan/load-curve.js";
import type { Configuration, Plan } from "../../plan/request.js";

const [WIDTH, HEIGHT] = [460, 290];
const PLOT = { left: 58, right: WIDTH - 18, top: 24, bottom: HEIGHT - 42 };

const tera = (flops: number): string => {
  const value = flops / 1e12;
  return value >= 1000 ? `${round(value / 1000)}P` : value >= 1 ? `${round(value)}T` : `${round(1000 * value)}G`;
};

/** Beside its point, on the side with room. */
function pointLabel(x: number, y: number, label: string): string {
  return x > PLOT.right - 90 ? textAt(x - 4, y + 20, label, 'text-anchor="end"') : textAt(x + 8, y + 14, label);
}

export function rooflineChart({ request }: Plan, shown: readonly Configuration[]): string {
  const { bytesPerS } = request.machine.device;
  const rooflines = shown.map((configuration) => rooflineOf(request, configuration));
  const points = rooflines.flatMap(({ points: each }) => each);
  const highest = Math.max(...rooflines.map(({ peak }) => peak));
  const xs: Span = {
    from: 0.5 * Math.min(...points.map(({ intensity }) => intensity)),
    to: 2 * Math.max(highest / bytesPerS, ...points.map(({ intensity }) => intensity)),
  };
  const ys: Span = { from: 0.5 * Math.min(...points.map(({ flops }) => flops)), to: 1.6 * highest };
  const x = logScale(xs, { from: PLOT.left, to: PLOT.right });
  const y = logScale(ys, { from: PLOT.bottom, to: PLOT.top });
  const parts = [
    ...logTicks(xs).map((tick) => textAt(x(tick), PLOT.bottom + 17, String(tick), 'text-anchor="middle"')),
    ...logTicks({ from: ys.from / 1e12, to: ys.to / 1e12 }).map(
      (tick) =>
        lineFrom(PLOT.left, y(tick * 1e12), PLOT.right, y(tick * 1e12), 'class="grid"') +
        textAt(PLOT.left - 8, y(tick * 1e12) + 4, tera(tick * 1e12), 'text-anchor="end"'),
    ),
    textAt((PLOT.left + PLOT.right) / 2, HEIGHT - 6, "operations for each byte read", 'text-anchor="middle"'),
    textAt(4, 11, "operations/s"),
    ...rooflines.map(({ peak, points: each }, index) => {
      const roof = pathThrough(
        [xs.from, peak / bytesPerS, xs.to].map((at) => [x(at), y(Math.min(peak, at * bytesPerS))] as const),
      );
      const marks = each.map(
        ({ label, intensity, flops }) =>
          `<circle cx="${round(x(intensity))}" cy="${round(y(flops))}" r="4.5" class="dot"><title>${escapeXml(`${label}: ${intensity.toFixed(1)} a byte, ${tera(flops)}`)}</title></circle>` +
          (index === 0 ? pointLabel(x(intensity), y(flops), label) : ""),
      );
      return `<g class="c${index}"><path d="${roof}" class="line"/>${marks.join("")}</g>`;
    }),
  ];
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Roofline">${parts.join("")}</svg>`;
}
