/** Helpers for SVG charts: escaping, scales, ticks, marks. */

export function escapeXml(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

export function textAt(x: number, y: number, text: string, attributes = ""): string {
  return `<text x="${round(x)}" y="${round(y)}" ${attributes}>${escapeXml(text)}</text>`;
}

export function lineFrom(x1: number, y1: number, x2: number, y2: number, attributes: string): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" ${attributes}/>`;
}

/** @param points as [x, y] */
export function pathThrough(points: readonly (readonly [number, number])[]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${round(x)} ${round(y)}`).join("");
}

/** Rounds to a tenth of a unit, which keeps files small. */
export function round(value: number): number {
  return Math.round(10 * value) / 10;
}

export type Scale = (value: number) => number;

export interface Span {
  readonly from: number;
  readonly to: number;
}

export function linearScale(values: Span, pixels: Span): Scale {
  const width = values.to - values.from || 1;
  return (value) => pixels.from + ((value - values.from) / width) * (pixels.to - pixels.from);
}

/** A logarithmic scale, for positive values. */
export function logScale(values: Span, pixels: Span): Scale {
  const linear = linearScale({ from: Math.log(values.from), to: Math.log(values.to) }, pixels);
  return (value) => linear(Math.log(value));
}

/** Ticks from 0 in steps of 1, 2 or 5 times a power of ten, about `count` of them, up to the first at or above `to`. */
export function niceTicks(to: number, count: number): number[] {
  const raw = to / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) ?? 10);
  return Array.from({ length: Math.max(1, Math.ceil(to / step - 1e-9)) + 1 }, (_, i) => i * step);
}

/** Ticks at 1, 2 and 5 times powers of ten within a span; only powers for wide spans, even steps for narrow ones. */
export function logTicks({ from, to }: Span): number[] {
  if (to / from < 8) return niceTicks(to, 6).filter((tick) => tick >= from && tick <= to);
  const powers = Array.from({ length: 16 }, (_, i) => 10 ** (i - 6));
  const factors = to / from > 300 ? [1] : [1, 2, 5];
  return powers
    .flatMap((power) => factors.map((factor) => factor * power))
    .filter((tick) => tick >= from && tick <= to);
}
