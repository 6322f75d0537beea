/** The server's metrics in Prometheus' text format, as data. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (NaN|[+-]?Inf|[-+.\d][-+.\deE]*)(?: \d+)?$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPES: Readonly<Record<string, string>> = { "\\n": "\n", '\\"': '"', "\\\\": "\\" };

/** Allocates no list of pairs per line: a fleet has thousands of lines, read each second while somebody watches. */
function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  for (let match = LABEL.exec(text); match !== null; match = LABEL.exec(text)) {
    const value = match[2]!;
    labels[match[1]!] = value.includes("\\") ? value.replace(/\\[n"\\]/g, (each) => ESCAPES[each]!) : value;
  }
  return labels;
}

/**
 * Skips lines of another form.
 *
 * @param isWanted filter of names: most lines of a fleet are irrelevant, and parsing labels takes longest
 */
export function parseMetrics(text: string, isWanted: (name: string) => boolean = () => true): readonly Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (!isWanted(line.slice(0, Math.max(0, line.search(/[{ ]/))))) continue;
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    samples.push({
      name,
      labels: labelsOf(labels),
      value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value),
    });
  }
  return samples;
}

/** The sum over all label sets. Undefined: the server lacks the metric. */
export function sumOf(samples: readonly Sample[], name: string): number | undefined {
  const values = samples.filter((sample) => sample.name === name).map(({ value }) => value);
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** The highest over all label sets. */
export function maxOf(samples: readonly Sample[], name: string): number | undefined {
  const values = samples.filter((sample) => sample.name === name).map(({ value }) => value);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** Upper bound of each bucket → number of values up to it. */
export type Histogram = ReadonlyMap<number, number>;

type Buckets = Map<number, number>;

/** The buckets of each label set, since different engines have different bounds. */
function bucketsOf(samples: readonly Sample[], name: string): readonly Buckets[] {
  const series = new Map<string, Buckets>();
  for (const { name: own, labels, value } of samples) {
    const { le, ...others } = labels;
    if (own !== `${name}_bucket` || le === undefined) continue;
    const whose = Object.values(others).join("\0");
    const buckets = series.get(whose) ?? new Map<number, number>();
    buckets.set(le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le), value);
    series.set(whose, buckets);
  }
  return [...series.values()];
}

/**
 * The sum over all label sets. A label set without a bound contributes its count at the next lower one, so that the sum
 * never shrinks from bound to bound.
 */
export function histogramOf(samples: readonly Sample[], name: string): Histogram {
  const series = bucketsOf(samples, name);
  const bounds = [...new Set(series.flatMap((buckets) => [...buckets.keys()]))].sort((a, b) => a - b);
  const sums = new Map(bounds.map((bound) => [bound, 0]));
  for (const buckets of series) {
    let count = 0;
    for (const bound of bounds) {
      count = buckets.get(bound) ?? count;
      sums.set(bound, sums.get(bound)! + count);
    }
  }
  return sums;
}

/**
 * A quantile of the values between two readings, in the histogram's unit. It assumes an even distribution within a
 * bucket, so the error is at most the bucket's width. Undefined: no values, or the server restarted between the
 * readings.
 */
export function quantileBetween(before: Histogram, now: Histogram, share: number): number | undefined {
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const earlier = [...before].sort(([a], [b]) => a - b);
  // A new bound, from an engine with other bounds, had at least the count of the bound below it.
  const counts = bounds.map((bound) => now.get(bound)! - (earlier.findLast(([end]) => end <= bound)?.[1] ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return undefined;
  const wanted = share * total;
  const i = counts.findIndex((count) => count >= wanted);
  if (i < 0) return undefined;
  const low = i === 0 ? 0 : bounds[i - 1]!;
  // Values beyond the last bound have at least its size.
  if (bounds[i] === Number.POSITIVE_INFINITY) return low;
  const below = i === 0 ? 0 : counts[i - 1]!;
  return low + (bounds[i]! - low) * Math.min(1, Math.max(0, (wanted - below) / (counts[i]! - below)));
}
