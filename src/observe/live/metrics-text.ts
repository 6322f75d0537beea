/** The server's metrics, in Prometheus' text format, as data. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (NaN|[+-]?Inf|[-+.\d][-+.\deE]*)(?: \d+)?$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPES: Readonly<Record<string, string>> = { "\\n": "\n", '\\"': '"', "\\\\": "\\" };

function labelsOf(text: string): Record<string, string> {
  const pairs = [...text.matchAll(LABEL)].map(([, name, value]) => [
    name!,
    value!.replace(/\\[n"\\]/g, (each) => ESCAPES[each]!),
  ]);
  return Object.fromEntries(pairs) as Record<string, string>;
}

/** Lines of another form are left out. */
export function parseMetrics(text: string): readonly Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) return [];
    return [{ name, labels: labelsOf(labels), value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value) }];
  });
}

/** The sum over all label sets. Undefined: the server has no such metric. */
export function sumOf(samples: readonly Sample[], name: string): number | undefined {
  const values = samples.filter((sample) => sample.name === name).map(({ value }) => value);
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** The highest over all label sets. */
export function maxOf(samples: readonly Sample[], name: string): number | undefined {
  const values = samples.filter((sample) => sample.name === name).map(({ value }) => value);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** Upper bound of each bucket → how many values are at most that. */
export type Histogram = ReadonlyMap<number, number>;

export function histogramOf(samples: readonly Sample[], name: string): Histogram {
  const buckets = new Map<number, number>();
  for (const { name: own, labels, value } of samples) {
    if (own !== `${name}_bucket`) continue;
    const bound = labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le);
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return buckets;
}

/**
 * A quantile of the values between two readings, in the histogram's unit. Within a bucket values are taken to lie evenly, so the error is at most the bucket's
 * width. Undefined: there was none, or the server has started again between the readings.
 */
export function quantileBetween(before: Histogram, now: Histogram, share: number): number | undefined {
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound) => now.get(bound)! - (before.get(bound) ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return undefined;
  const wanted = share * total;
  const i = counts.findIndex((count) => count >= wanted);
  if (i < 0) return undefined;
  const low = i === 0 ? 0 : bounds[i - 1]!;
  // Values beyond the last bound are known to be that large at least.
  if (bounds[i] === Number.POSITIVE_INFINITY) return low;
  const below = i === 0 ? 0 : counts[i - 1]!;
  return low + (bounds[i]! - low) * Math.min(1, Math.max(0, (wanted - below) / (counts[i]! - below)));
}
