/**
 * Orders two configurations. Each key of the order falls as a figure improves, so a configuration that is better in all
 * figures always comes first.
 */
import { formatUsd } from "../core/quantities.js";
import type { Evaluation } from "./evaluate.js";
import type { Objective, PlanRequest } from "./request.js";

/** Overshoot of a load whose requests arrive faster than they are served: above it only throughput counts. */
const UNBOUNDED = 1e15;

export interface Figure {
  readonly unit: string;
  readonly isMoreBetter: boolean;
  readonly of: (request: PlanRequest, evaluation: Evaluation) => number;
  /** Formats its numbers; absent: as plain numbers. */
  readonly number?: (value: number, decimals: number | undefined) => string;
  readonly text: (number: string) => string;
}

/**
 * The factor by which the worst figure exceeds its target; 0: all targets hold. If requests wait endlessly, a huge
 * number that falls as throughput rises.
 */
function overshoot({ slo }: PlanRequest, { prediction, misses }: Evaluation): number {
  if (misses.length === 0) return 0;
  if (!Number.isFinite(prediction.ttftP95Ms)) return UNBOUNDED - prediction.outputTokensPerS;
  const of = (value: number, target: number | undefined): number => (target === undefined ? 0 : value / target);
  return Math.max(of(prediction.ttftP95Ms, slo.ttftMs), of(prediction.tpotMs, slo.tpotMs));
}

export const isUnbounded = (factor: number): boolean => factor > UNBOUNDED / 2;

const less = (unit: string, of: Figure["of"]): Figure => ({
  unit,
  isMoreBetter: false,
  of,
  text: (number) => `${number} ${unit}`,
});

export const OVER_TARGETS = less("times its targets", overshoot);
export const SPEED: Figure = {
  unit: "tokens/s",
  isMoreBetter: true,
  of: (_, { prediction }) => prediction.outputTokensPerS,
  text: (number) => `${number} tokens/s`,
};
const MONEY: Figure = {
  unit: "$/M output tokens",
  isMoreBetter: false,
  of: (_, { cost }) => cost.usdPerMillionOutput,
  number: formatUsd,
  text: (number) => `${number} a million output tokens`,
};
/** Time from sending a request to its last token. */
const WHOLE_REQUEST = less(
  "ms a request",
  ({ outputTokens }, { prediction }) => prediction.ttftMs + prediction.tpotMs * outputTokens,
);
const LATE_FIRST_TOKEN = less("ms to the first token, p95", (_, { prediction }) => prediction.ttftP95Ms);
const FIRST_TOKEN = less("ms to the first token", (_, { prediction }) => prediction.ttftMs);

export const AIMS: Readonly<Record<Objective, Figure>> = {
  throughput: SPEED,
  cost: MONEY,
  latency: WHOLE_REQUEST,
};

/** Order: targets, then the objective, then the other one of speed and cost. */
export function keysOf({ objective }: PlanRequest): readonly Figure[] {
  return [OVER_TARGETS, AIMS[objective], WHOLE_REQUEST, MONEY, LATE_FIRST_TOKEN, FIRST_TOKEN, SPEED];
}

/** Index of the objective among the keys. Its values count as equal within about a thousandth. */
export const AIM_KEY = 1;
const inThousandths = (value: number): number => Math.round(1000 * Math.log(value));

/** The keys' values; smaller is better. */
export function rank(request: PlanRequest, evaluation: Evaluation): readonly number[] {
  return keysOf(request).map(({ of, isMoreBetter }, index) => {
    const value = of(request, evaluation);
    const key = index === AIM_KEY ? inThousandths(value) : value;
    return isMoreBetter ? -key : key;
  });
}

/** The first key in which the two differ; undefined: they are equal. */
export function firstDifference(a: readonly number[], b: readonly number[]): number | undefined {
  const index = a.findIndex((value, i) => value !== b[i]);
  return index < 0 ? undefined : index;
}

/** Best first. */
export function ranked<T extends Evaluation>(request: PlanRequest, evaluations: readonly T[]): T[] {
  return evaluations
    .map((evaluation) => ({ evaluation, keys: rank(request, evaluation) }))
    .toSorted((a, b) => {
      const index = firstDifference(a.keys, b.keys);
      return index === undefined ? 0 : a.keys[index]! - b.keys[index]!;
    })
    .map(({ evaluation }) => evaluation);
}
