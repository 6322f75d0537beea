/** The metrics of lm-evaluation-harness: their values for an item, and the aggregation of items to a task's value. */
import { javascriptRegex, withoutMatches } from "./python-regex.js";
import type { Metric, MetricName } from "./task-file.js";

/** A number, or a sum and its weight. */
export type MetricValue = number | readonly [sum: number, weight: number];

/** By metric and filter, such as "acc,none". */
export type MetricValues = Readonly<Record<string, MetricValue>>;

export interface MetricResult {
  readonly value: number;
  /** Absent: unknown for this metric. */
  readonly stderr?: number;
}

export const DEFAULT_METRICS = {
  loglikelihood: ["perplexity", "acc"],
  loglikelihood_rolling: ["word_perplexity", "byte_perplexity", "bits_per_byte"],
  multiple_choice: ["acc", "acc_norm"],
  generate_until: ["exact_match"],
} as const satisfies Readonly<Record<string, readonly MetricName[]>>;

export const KNOWN_METRICS: Readonly<Record<keyof typeof DEFAULT_METRICS, readonly MetricName[]>> = {
  ...DEFAULT_METRICS,
  multiple_choice: ["acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match"],
};

export const AGGREGATION: Readonly<Record<MetricName, NonNullable<Metric["aggregation"]>>> = {
  acc: "mean",
  acc_norm: "mean",
  acc_bytes: "mean",
  acc_mutual_info: "mean",
  exact_match: "mean",
  perplexity: "perplexity",
  word_perplexity: "weighted_perplexity",
  byte_perplexity: "weighted_perplexity",
  bits_per_byte: "bits_per_byte",
};

/** Whether this metric is a share of right items. */
export const isShare = (name: string): boolean => AGGREGATION[name.split(",")[0] as MetricName] === "mean";

/** The task's value of each metric. @param items all with the same metrics */
export function aggregated(
  items: readonly { readonly metrics?: MetricValues | undefined }[],
): Readonly<Record<string, MetricResult>> {
  const names = Object.keys(items[0]?.metrics ?? {});
  return Object.fromEntries(
    names.map((name) => [
      name,
      aggregate(
        name,
        items.map(({ metrics }) => metrics?.[name] ?? 0),
      ),
    ]),
  );
}

function aggregate(name: string, values: readonly MetricValue[]): MetricResult {
  const pairs = values.map((value) => (typeof value === "number" ? ([value, 1] as const) : value));
  const total = (of: 0 | 1): number => pairs.reduce((sum, pair) => sum + pair[of], 0);
  const mean = total(0) / total(1);
  switch (AGGREGATION[name.split(",")[0] as MetricName]) {
    case "perplexity":
    case "weighted_perplexity":
      return { value: Math.exp(-mean) };
    case "bits_per_byte":
      return { value: -mean / Math.LN2 };
    case "mean": {
      const squares = pairs.reduce((sum, [value]) => sum + (value - mean) ** 2, 0);
      return pairs.length < 2
        ? { value: mean }
        : { value: mean, stderr: Math.sqrt(squares / (pairs.length - 1) / pairs.length) };
    }
  }
}

const PUNCTUATION = /[!-/:-@[-`{-~]/g;

/** Normalises text for `exact_match`. */
export function normaliser(metric: Metric): (text: string) => string {
  const ignored = (metric.regexes_to_ignore ?? []).map(javascriptRegex);
  return (text) => {
    // A pattern that takes too long removes nothing.
    let kept = ignored.reduce((rest, regex) => withoutMatches(regex, rest) ?? rest, text);
    if (metric.ignore_case) kept = kept.toLowerCase();
    if (metric.ignore_punctuation) kept = kept.replace(PUNCTUATION, "");
    return metric.ignore_numbers ? kept.replace(/[0-9]/g, "") : kept;
  };
}
