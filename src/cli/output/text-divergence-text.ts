/** Perplexity and divergence over a text, as tables. */
import type { GroupedMean } from "../../bench/measure/intervals.js";
import type { ScoredText, TextComparison } from "../../lab/text-divergence.js";
import { percent } from "./eval-text.js";
import { formatTable } from "./format.js";

const HEADER = ["over the text", "value", "95 % interval"];

/** @example tokensText(text) // "51,200 of 300,000 tokens" */
export function tokensText({ windows, numTokens }: ScoredText): string {
  const numScored = windows.reduce((sum, { ids }) => sum + ids.length, 0);
  return `${numScored.toLocaleString("en-US")} of ${numTokens.toLocaleString("en-US")} tokens`;
}

export const perplexityRows = (perplexity: GroupedMean, text: ScoredText): string =>
  formatTable([
    HEADER,
    row("perplexity", perplexity, fixed),
    ["scored", tokensText(text), ""],
    ["windows", String(text.windows.length), ""],
  ]);

export function comparedTextRows(comparison: TextComparison, text: ScoredText): string {
  const { perplexityBefore, perplexityAfter, perplexityRatio, kl, sameTop, rmsChange, restShare } = comparison;
  const rows = [
    HEADER,
    row("perplexity before", perplexityBefore, fixed),
    row("perplexity after", perplexityAfter, fixed),
    row("after ÷ before", perplexityRatio, (value) => value.toFixed(4)),
    row("divergence (nats), at least", kl.mean, digits),
    ["99th percentile", kl.p99 === undefined ? "" : digits(kl.p99), ""],
    ["largest", digits(kl.max), ""],
    row("same likeliest token", sameTop, percent),
    ["change of a token's probability (RMS)", percent(rmsChange), ""],
    ["scored", tokensText(text), ""],
  ];
  return `${formatTable(rows)}\n\nThe divergence compares the tokens that both models name; the others, with ${percent(restShare)} of the probability, count as one, so that it is a lower bound.`;
}

const fixed = (value: number): string => value.toFixed(3);
const digits = (value: number): string => String(Number(value.toPrecision(3)));

const row = (name: string, { value, low, high }: GroupedMean, show: (value: number) => string): string[] => [
  name,
  show(value),
  low === undefined || high === undefined ? "" : `${show(low)} to ${show(high)}`,
];
