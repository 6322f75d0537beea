/** Compares a cascade's cost and quality with each model alone and with random mixing at the same cost. */
import { uniform } from "../core/random.js";
import { featuresOf } from "../gateway/cascade/features.js";
import { judge } from "../gateway/cascade/judges.js";
import type { RouterFile } from "../gateway/cascade/router-file.js";
import { lastText } from "../gateway/routes/request-facts.js";
import type { Qualities } from "./labels.js";
import type { AnswerRecord, Pair, PairTerms } from "./pairs.js";

/** US dollars per million tokens. */
export interface TokenPrice {
  readonly input: number;
  readonly output: number;
}

export interface Prices {
  readonly small: TokenPrice;
  readonly large: TokenPrice;
}

/** A mean with its 95 % interval. */
export interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface CascadeFigures {
  readonly numItems: number;
  readonly floor: number;
  /** Share of requests that the small model answers. */
  readonly kept: Interval;
  /**
   * Cost unit of one request. seconds: of the machine, with the collection's number of concurrent answers; dollars: by
   * the prices.
   */
  readonly costUnit: "seconds" | "dollars";
  readonly cost: Readonly<Record<"small" | "large" | "cascade", Interval>>;
  readonly quality: Readonly<Record<"small" | "large" | "cascade" | "mixing", Interval>>;
  /** Share of the large model's cost. */
  readonly saved: Interval;
  /** Cascade minus large, paired. */
  readonly qualityDifference: Interval;
  /** Cascade minus random mixing of both models at the cascade's cost, paired. */
  readonly gainOverMixing: Interval;
  /** Share of all requests whose kept answer is worse than the large model's. */
  readonly loss: Interval;
}

interface Item {
  readonly isKept: boolean;
  readonly quality: Qualities;
  readonly cost: Qualities;
}

const NUM_RESAMPLES = 2000;
const LOW = 0.025;

/** The features of a pair's small answer, as the gateway computes them. */
export const pairFeatures = ({ prompt, small }: Pair): number[] =>
  featuresOf(small, lastText({ messages: prompt.messages }));

/** @param auditShare share of requests that go to both models, at the cost of both */
export function figuresOf(
  pairs: readonly Pair[],
  qualities: readonly Qualities[],
  router: RouterFile,
  floor: number,
  { concurrency }: PairTerms,
  auditShare: number,
  prices?: Prices,
): CascadeFigures {
  const costOf = (answer: AnswerRecord, price: TokenPrice | undefined): number =>
    price === undefined
      ? answer.seconds / concurrency
      : (answer.numPromptTokens * price.input + answer.numOutputTokens * price.output) / 1e6;
  const terms = { router, floor, minLogprob: undefined };
  const items = pairs.map(({ prompt, small, large }, index): Item => {
    const { isKept } = judge(small, { body: { messages: prompt.messages } }, terms);
    const cost = { small: costOf(small, prices?.small), large: costOf(large, prices?.large) };
    return { isKept, quality: qualities[index]!, cost };
  });
  const point = measures(items, auditShare);
  const random = uniform(pairs.length);
  const resampled = Array.from({ length: NUM_RESAMPLES }, () =>
    measures(
      items.map(() => items[Math.floor(random() * items.length)]!),
      auditShare,
    ),
  );
  const interval = (pick: (measured: Measures) => number): Interval => {
    const sorted = resampled.map(pick).sort((a, b) => a - b);
    const at = (share: number): number => sorted[Math.round(share * (sorted.length - 1))]!;
    return { value: pick(point), low: at(LOW), high: at(1 - LOW) };
  };
  return {
    numItems: items.length,
    floor,
    kept: interval(({ kept }) => kept),
    costUnit: prices === undefined ? "seconds" : "dollars",
    cost: {
      small: interval(({ cost }) => cost.small),
      large: interval(({ cost }) => cost.large),
      cascade: interval(({ cascadeCost }) => cascadeCost),
    },
    quality: {
      small: interval(({ quality }) => quality.small),
      large: interval(({ quality }) => quality.large),
      cascade: interval(({ cascadeQuality }) => cascadeQuality),
      mixing: interval(({ mixingQuality }) => mixingQuality),
    },
    saved: interval(({ cost, cascadeCost }) => 1 - cascadeCost / cost.large),
    qualityDifference: interval(({ quality, cascadeQuality }) => cascadeQuality - quality.large),
    gainOverMixing: interval(({ cascadeQuality, mixingQuality }) => cascadeQuality - mixingQuality),
    loss: interval(({ loss }) => loss),
  };
}

type Measures = ReturnType<typeof measures>;

/** An audited request costs both models, and its client gets the large model's answer. */
function measures(items: readonly Item[], auditShare: number) {
  const mean = (of: (item: Item) => number): number => items.reduce((sum, item) => sum + of(item), 0) / items.length;
  const quality = { small: mean((item) => item.quality.small), large: mean((item) => item.quality.large) };
  const cost = { small: mean((item) => item.cost.small), large: mean((item) => item.cost.large) };
  const kept = mean(({ isKept }) => Number(isKept));
  const judgedQuality = mean(({ isKept, quality: each }) => (isKept ? each.small : each.large));
  const judgedCost = cost.small + mean(({ isKept, cost: each }) => (isKept ? 0 : each.large));
  const cascadeQuality = (1 - auditShare) * judgedQuality + auditShare * quality.large;
  const cascadeCost = (1 - auditShare) * judgedCost + auditShare * (cost.small + cost.large);
  // If a cascade costs more than the large model, the large model alone is its rival.
  const toSmall = Math.min(1, Math.max(0, (cost.large - cascadeCost) / (cost.large - cost.small)));
  return {
    kept,
    quality,
    cost,
    cascadeQuality,
    cascadeCost,
    mixingQuality: toSmall * quality.small + (1 - toSmall) * quality.large,
    loss: mean(({ isKept, quality: each }) => Number(isKept && each.small < each.large)),
  };
}

const percent = ({ value, low, high }: Interval): string =>
  `${(100 * value).toFixed(1)} % (${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)})`;

const points = ({ value, low, high }: Interval): string => {
  const signed = (share: number): string => `${share < 0 ? "-" : "+"}${Math.abs(100 * share).toFixed(1)}`;
  return `${signed(value)} points (${signed(low)} to ${signed(high)})`;
};

/** Rows of a table. @param names of the models */
export function reportRows(
  figures: CascadeFigures,
  names: { readonly small: string; readonly large: string },
): string[][] {
  const { cost, quality, costUnit } = figures;
  const per1000 = ({ value }: Interval): string =>
    costUnit === "seconds" ? `${(1000 * value).toFixed(1)} s` : `$${(1000 * value).toFixed(4)}`;
  return [
    ["", "cost of 1,000", "quality (95 %)"],
    [`${names.small} alone`, per1000(cost.small), percent(quality.small)],
    [`${names.large} alone`, per1000(cost.large), percent(quality.large)],
    ["random mixing at the cascade's cost", per1000(cost.cascade), percent(quality.mixing)],
    ["cascade", per1000(cost.cascade), percent(quality.cascade)],
  ];
}

export function findings(figures: CascadeFigures): string[] {
  const { numItems, floor, kept, saved, qualityDifference, gainOverMixing, loss } = figures;
  return [
    `${numItems} held-out prompts, floor ${floor.toFixed(3)}: the small model answers ${percent(kept)}.`,
    `Cost saved: ${percent(saved)}.`,
    `Quality beside the large model, paired: ${points(qualityDifference)}.`,
    `Quality beside random mixing at the same cost, paired: ${points(gainOverMixing)}.`,
    `Answers that are worse than the large model's: ${percent(loss)} of all requests.`,
  ];
}
