/** Perplexity and divergence over a text, as tables. */
import type { Difference } from "../../bench/measure/intervals.js";
import type { TextComparison } from "../../lab/text-divergence.js";
import { percent } from "./eval-text.js";
import { formatTable } from "./format.js";

const HEADER = ["over the text", "value", "95 % interval"];

export const perplexityRows = (perplexity: Difference, numWindows: number): string =>
  formatTable([
    HEADER,
    row("perplexity", perplexity, fixed),
    ["tokens", String(perplexity.numPairs), ""],
    ["windows", String(numWindows), ""],
  ]);

export function comparedTextRows(comparison: TextComparison): string {
  const { perplexityBefore, perplexityAfter, perplexityRatio, kl, sameTop, rmsChange, restShare } = comparison;
  const [low, high] = comparison.sameTopInterval;
  const rows = [
    HEADER,
    row("perplexity before", perplexityBefore, fixed),
    row("perplexity after", perplexityAfter, fixed),
    row("after ÷ before", perplexityRatio, (value) => value.toFixed(4)),
    row("divergence (nats), at least", kl.mean, digits),
    ["99th percentile", kl.p99 === undefined ? "" : digits(kl.p99), ""],
    ["largest", digits(kl.max), ""],
    ["same likeliest token", percent(sameTop), `${percent(low)} to ${percent(high)}`],
    ["change of a token's probability (RMS)", percent(rmsChange), ""],
    ["tokens", String(perplexityBefore.numPairs), ""],
  ];
  return `${formatTable(rows)}\n\nThe divergence compares the tokens that both models name; the others, with ${percent(restShare)} of the probability, count as one, so that it is a lower bound.`;
}

const fixed = (value: number): string => value.toFixed(3);
const digits = (value: number): string => String(Number(value.toPrecision(3)));

const row = (name: string, { value, low, high }: Difference, show: (value: number) => string): string[] => [
  name,
  show(value),
  low === undefined || high === undefined ? "" : `${show(low)} to ${show(high)}`,
];
