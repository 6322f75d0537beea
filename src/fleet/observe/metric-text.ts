/** Prometheus' text format, for figures from other sources than the library of the other metrics. */

/** A histogram's buckets: each counts the values up to its end; the last has no end. */
export type Buckets = readonly (readonly [end: number, count: number])[];

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", '"': '\\"', "\\": "\\\\" };

/** @example labelsText({ model: "m" }) // 'model="m"' */
export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([name, text]) => `${name}="${text.replace(/[\n"\\]/g, (each) => ESCAPES[each]!)}"`)
    .join(",");

/** @param lines samples of the family */
export const familyText = (
  name: string,
  help: string,
  kind: "counter" | "histogram",
  lines: readonly string[],
): string => [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...lines, ""].join("\n");

/** @param labels as text @param sum of all values; undefined: unknown */
export function histogramLines(name: string, labels: string, buckets: Buckets, sum: number | undefined): string[] {
  const counted = buckets.map(([end, count]) => {
    const bound = end === Number.POSITIVE_INFINITY ? "+Inf" : String(end);
    return `${name}_bucket{le="${bound}",${labels}} ${count}`;
  });
  const sums = sum === undefined ? [] : [`${name}_sum{${labels}} ${sum}`];
  return [...counted, ...sums, `${name}_count{${labels}} ${buckets.at(-1)![1]}`];
}
