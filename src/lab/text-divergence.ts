/**
 * Perplexity of a model over a text, and the difference of its predictions from another model's at the same tokens.
 * Servers only return the likeliest tokens at each position, so the divergence is a lower bound.
 */
import { isDeepStrictEqual } from "node:util";
import { type GroupedMean, groupedMean } from "../bench/measure/intervals.js";
import { percentile } from "../bench/measure/percentiles.js";
import { MillraceError } from "../core/errors.js";
import { runAll } from "../quality/ask.js";
import type { TextModel, TokenPrediction } from "../quality/harness/text-model.js";

/** Number of likeliest tokens at each position: the most that vLLM returns without a flag. */
export const NUM_TOP = 20;

/** A part of the text that is scored separately. */
export interface ScoredWindow {
  /** Tokens of the text, without the token before it. */
  readonly ids: readonly number[];
  /** One prediction per id. */
  readonly predictions: readonly TokenPrediction[];
}

export interface ScoredText {
  readonly windows: readonly ScoredWindow[];
  /** Tokens of the whole text; the windows may cover only a part. */
  readonly numTokens: number;
}

/** Least number of tokens in a window. */
export const LEAST_WINDOW = 2;

export interface Windows {
  /** Tokens per window. */
  readonly size: number;
  /** Most windows to score. */
  readonly count: number;
}

/**
 * Scores a text in windows, each after the token that begins texts. Throws invalid_option for a text without tokens and
 * for windows beyond the model's context, and endpoint_failed if a server returns no predictions of prompts.
 */
export async function scoreText(
  { model, concurrency }: { readonly model: TextModel; readonly concurrency: number },
  text: string,
  { size, count }: Windows,
  onProgress: (numDone: number, numWindows: number) => void,
  signal: AbortSignal,
): Promise<ScoredText> {
  // A token precedes each window, and servers generate one after it.
  const most = model.maxLength - 2;
  if (size > most) {
    throw new MillraceError(
      "invalid_option",
      `expected a --window within the model's context of ${model.maxLength} tokens, got ${size}`,
      { hint: most < LEAST_WINDOW ? "give a model with a longer context" : `give --window ${most} or less` },
    );
  }
  const ids = await model.encode(text);
  if (ids.length === 0)
    throw new MillraceError("invalid_option", "expected a text with tokens in --text-file, got none");
  const parts = Array.from({ length: Math.min(count, Math.ceil(ids.length / size)) }, (_, index) =>
    ids.slice(index * size, (index + 1) * size),
  );
  const windows: ScoredWindow[] = new Array(parts.length);
  let numDone = 0;
  await runAll(parts, concurrency, async (part, index) => {
    const predictions = await model.predict([model.prefixId, ...part], NUM_TOP, signal);
    windows[index] = { ids: part, predictions: predictions.map(finite) };
    onProgress(++numDone, parts.length);
  });
  return { windows, numTokens: ids.length };
}

/** vLLM's value for the logarithm of zero, since JSON has no infinity. */
const LEAST_LOGPROB = -9999;
const atLeast = (logprob: number): number => Math.max(LEAST_LOGPROB, logprob);

const finite = ({ logprob, known }: TokenPrediction): TokenPrediction => ({
  logprob: atLeast(logprob),
  known: Object.fromEntries(Object.entries(known).map(([id, each]) => [id, atLeast(each)])),
});

const sumsOf = (windows: readonly ScoredWindow[], valueAt: (window: number, place: number) => number) =>
  windows.map(({ ids }, window) => ({
    sum: ids.reduce((sum, _, place) => sum + valueAt(window, place), 0),
    count: ids.length,
  }));

/** exp of the mean negative log-likelihood, with the interval by windows. */
export const perplexityOf = (windows: readonly ScoredWindow[]): GroupedMean =>
  exponential(groupedMean(sumsOf(windows, (window, place) => -windows[window]!.predictions[place]!.logprob)));

const exponential = ({ value, low, high, numMembers }: GroupedMean): GroupedMean => ({
  value: Math.exp(value),
  ...(low === undefined || high === undefined ? {} : { low: Math.exp(low), high: Math.exp(high) }),
  numMembers,
});

/** Limits the interval to 0 and 1. */
const shareOf = ({ low, high, ...share }: GroupedMean): GroupedMean => ({
  ...share,
  ...(low === undefined || high === undefined ? {} : { low: Math.max(0, low), high: Math.min(1, high) }),
});

export interface TextComparison {
  readonly perplexityBefore: GroupedMean;
  readonly perplexityAfter: GroupedMean;
  /** Perplexity after ÷ before, by paired windows. */
  readonly perplexityRatio: GroupedMean;
  /** Lower bound of KL(before ‖ after) of the next token's distribution, in nats. */
  readonly kl: { readonly mean: GroupedMean; readonly p99: number | undefined; readonly max: number };
  /** Share of positions with the same likeliest token. */
  readonly sameTop: GroupedMean;
  /** Root mean square of the change in the probabilities of the text's tokens. */
  readonly rmsChange: number;
  /** Mean probability, before, of the tokens that are only compared by their sum. */
  readonly restShare: number;
}

/** Throws invalid_option if the windows have different tokens. */
export function compareTexts(before: readonly ScoredWindow[], after: readonly ScoredWindow[]): TextComparison {
  assertSameTokens(before, after);
  const pairs = before.map(({ predictions }, window) =>
    predictions.map((p, place) => ({
      p,
      q: after[window]!.predictions[place]!,
      ...coarseKl(p, after[window]!.predictions[place]!),
    })),
  );
  const all = pairs.flat();
  const mean = (value: (pair: (typeof all)[number]) => number): number =>
    all.reduce((sum, pair) => sum + value(pair), 0) / all.length;
  const sorted = all.map(({ kl }) => kl).sort((a, b) => a - b);
  return {
    perplexityBefore: perplexityOf(before),
    perplexityAfter: perplexityOf(after),
    perplexityRatio: exponential(
      groupedMean(
        sumsOf(before, (window, place) => pairs[window]![place]!.p.logprob - pairs[window]![place]!.q.logprob),
      ),
    ),
    kl: {
      mean: groupedMean(sumsOf(before, (window, place) => pairs[window]![place]!.kl)),
      p99: percentile(sorted, 0.99),
      max: sorted.at(-1)!,
    },
    sameTop: shareOf(
      groupedMean(
        sumsOf(before, (window, place) => {
          const { p, q } = pairs[window]![place]!;
          return Number(likeliest(p) === likeliest(q));
        }),
      ),
    ),
    rmsChange: Math.sqrt(mean(({ p, q }) => (Math.exp(q.logprob) - Math.exp(p.logprob)) ** 2)),
    restShare: mean(({ rest }) => rest),
  };
}

function assertSameTokens(before: readonly ScoredWindow[], after: readonly ScoredWindow[]): void {
  const lengths = [before, after].map((windows) => windows.map(({ ids }) => ids.length));
  const [first, other] = [before, after].map((windows) => windows.flatMap(({ ids }) => ids)) as [number[], number[]];
  const place = first.findIndex((id, index) => index < other.length && id !== other[index]);
  if (place < 0 && isDeepStrictEqual(lengths[0], lengths[1])) return;
  const got = place < 0 ? `${first.length} and ${other.length}, in windows` : `others from token ${place + 1} on`;
  throw new MillraceError("invalid_option", `expected the same tokens of the text from both models, got ${got}`, {
    hint: "compare models of one tokenizer with one --text-file, --window and --count; word_perplexity of a task file compares others",
  });
}

const likeliest = ({ known }: TokenPrediction): string | undefined =>
  Object.entries(known).reduce<readonly [string | undefined, number]>(
    (best, [id, logprob]) => (logprob > best[1] ? [id, logprob] : best),
    [undefined, Number.NEGATIVE_INFINITY],
  )[0];

/** Least probability of the other tokens together, since rounded probabilities may sum to slightly more than 1. */
const LEAST_REST = 1e-6;

/**
 * Compares the tokens that both models list one by one, and all others as one. Joining tokens never raises the
 * divergence (the inequality of data processing).
 * @returns also the probability of all others in p
 */
export function coarseKl(p: TokenPrediction, q: TokenPrediction): { readonly kl: number; readonly rest: number } {
  let [kl, restOfP, restOfQ] = [0, 1, 1];
  for (const [id, logprob] of Object.entries(p.known)) {
    const other = q.known[id];
    if (other === undefined) continue;
    const share = Math.exp(logprob);
    // Included in the remainder: zero times an infinite difference would be NaN.
    if (share === 0) continue;
    kl += share * (logprob - other);
    restOfP -= share;
    restOfQ -= Math.exp(other);
  }
  const [left, right] = [Math.max(LEAST_REST, restOfP), Math.max(LEAST_REST, restOfQ)];
  return { kl: Math.max(0, kl + left * Math.log(left / right)), rest: Math.max(0, restOfP) };
}
