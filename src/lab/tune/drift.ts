/** Compares two tunings of one load at different times: the drift, and the changes that may explain it. */
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { type Estimate, unpairedRatio } from "../../bench/measure/intervals.js";
import type { Finding } from "./bottleneck.js";
import { type Configuration, keyOf } from "./configuration.js";
import type { Baseline, Tuning } from "./loop.js";

/** Figures for comparing tunings of different days. */
export interface Figures {
  readonly baseline?: Baseline | undefined;
  readonly best: Configuration;
  readonly total?: Estimate | undefined;
  readonly first: Finding;
  readonly last: Finding;
}

export const figuresOf = ({ baseline, best, total, first, last }: Tuning): Figures => ({
  baseline,
  best,
  total,
  first,
  last,
});

/** Facts that may explain a drift, by name: versions, the machine, the model and the options. */
export type Facts = Readonly<Record<string, unknown>>;

interface Change {
  readonly name: string;
  readonly before: unknown;
  readonly now: unknown;
}

interface Both<T> {
  readonly before: T;
  readonly now: T;
}

export interface Drift {
  /** drifted: the interval lies outside ± maxDrift; steady: inside; open: neither is certain. */
  readonly verdict: "drifted" | "steady" | "open";
  readonly maxDrift: number;
  /** The first configuration's objective, now ÷ then; larger is better. */
  readonly ratio?: Estimate | undefined;
  readonly baseline: Both<Baseline | undefined>;
  readonly winner: Both<Configuration> & { readonly isSame: boolean };
  readonly gain: Both<Estimate | undefined>;
  readonly bottleneck: Both<Finding>;
  readonly changes: readonly Change[];
}

interface Told {
  readonly figures: Figures;
  readonly facts: Facts;
}

/** @param maxDrift as a share: 0.05 for ±5 % */
export function driftBetween(earlier: Told, later: Told, maxDrift: number): Drift {
  const [before, now] = [earlier.figures, later.figures];
  const ratio = unpairedRatio(valuesOf(later), valuesOf(earlier));
  return {
    verdict: verdictOn(ratio, maxDrift),
    maxDrift,
    ratio,
    baseline: { before: before.baseline, now: now.baseline },
    winner: { before: before.best, now: now.best, isSame: keyOf(before.best) === keyOf(now.best) },
    gain: { before: before.total, now: now.total },
    bottleneck: { before: before.first, now: now.first },
    changes: changesBetween(earlier.facts, later.facts),
  };
}

const pricedSchema = z.object({ objective: z.literal("cost"), plan: z.object({ pricePerHour: z.number() }) });

/**
 * Empty unless all values are positive, as ratios require. Tokens per dollar become tokens per hour, because a changed
 * price is not a drift of the server.
 */
function valuesOf({ figures: { baseline }, facts }: Told): readonly number[] {
  const pricePerHour = pricedSchema.safeParse(facts).data?.plan.pricePerHour ?? 1;
  return baseline?.values.every((value) => value > 0) ? baseline.values.map((value) => value * pricePerHour) : [];
}

function verdictOn(ratio: Estimate | undefined, maxDrift: number): Drift["verdict"] {
  if (ratio?.low === undefined || ratio.high === undefined) return "open";
  if (ratio.low > 1 + maxDrift || ratio.high < 1 - maxDrift) return "drifted";
  return ratio.low >= 1 - maxDrift && ratio.high <= 1 + maxDrift ? "steady" : "open";
}

function changesBetween(before: Facts, now: Facts): Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  return names
    .filter((name) => !isDeepStrictEqual(before[name], now[name]))
    .map((name) => ({ name, before: before[name], now: now[name] }));
}
