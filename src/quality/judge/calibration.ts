/**
 * Compares a judge with people who judged the same pairs: whether it is reliable, and how much its errors change a win
 * rate.
 */

import type { Judgement } from "../../text/judge/preference.js";
import { dropBounds, dropInterval, type Flips, type Verdict } from "../paired.js";
import { wilsonInterval } from "../wilson.js";
import {
  biasOf,
  type Correlation,
  guardedFlips,
  type JudgeBias,
  type JudgedPair,
  lengthCorrelation,
  rateInterval,
  rateOfDrop,
  type WinRate,
} from "./judged-pair.js";

type Interval = readonly [low: number, high: number];

/** A person's verdict on the first answer against the second. */
export type HumanVerdict = Exclude<Judgement, "none">;

export interface LabelledPair extends JudgedPair {
  readonly human: HumanVerdict;
}

export interface Calibration {
  readonly numLabels: number;
  /** Pairs without a verdict of the judge, which count as disagreement. */
  readonly numNone: number;
  /** Share of pairs on which judge and people agree, and Wilson's 95 % interval. */
  readonly agreement: number;
  readonly agreementInterval: Interval;
  /** The chance agreement, from both parties' frequencies of verdicts. */
  readonly chance: number;
  /**
   * Cohen's kappa: agreement beyond chance, as a share of the possible (Educational and Psychological Measurement 20,
   * 1960, 37).
   */
  readonly kappa: number;
  readonly kappaInterval: Interval;
  /**
   * Over pairs where people prefer an answer and the judge gives a verdict: the share preferred rightly minus the share
   * preferred wrongly.
   */
  readonly discrimination: number;
  readonly discriminationInterval: Interval;
  /** Each bound with 95 % confidence. */
  readonly discriminationBounds: Interval;
  readonly bias: JudgeBias;
  /** The people's own correlation with length; `bias` has the judge's. */
  readonly humanLength: Correlation | undefined;
  /** Whether the judge is surely better than chance, so that a gate may use it. */
  readonly isFit: boolean;
}

const VERDICTS: readonly HumanVerdict[] = ["won", "tied", "lost"];

export function calibrate(pairs: readonly LabelledPair[]): Calibration {
  const numLabels = pairs.length;
  const numAgreed = pairs.filter(({ human, judgement }) => human === judgement).length;
  const share = (counts: (pair: LabelledPair) => boolean): number =>
    pairs.filter(counts).length / Math.max(1, numLabels);
  const chance = VERDICTS.reduce(
    (sum, verdict) => sum + share(({ human }) => human === verdict) * share(({ judgement }) => judgement === verdict),
    0,
  );
  const agreement = numAgreed / Math.max(1, numLabels);
  const agreementInterval = wilsonInterval(numAgreed, numLabels);
  const beyondChance = (value: number): number => (chance === 1 ? 0 : (value - chance) / (1 - chance));
  const decided = pairs.filter(({ human, judgement }) => human !== "tied" && judgement !== "none");
  const right = decided.filter(({ human, judgement }) => human === judgement).length;
  const wrong = decided.filter(({ judgement }) => judgement !== "tied").length - right;
  const flips: Flips = { numItems: decided.length, numLost: wrong, numWon: right };
  const discriminationBounds = negated(dropBounds(flips));
  return {
    numLabels,
    numNone: pairs.filter(({ judgement }) => judgement === "none").length,
    agreement,
    agreementInterval,
    chance,
    kappa: beyondChance(agreement),
    kappaInterval: [beyondChance(agreementInterval[0]), beyondChance(agreementInterval[1])],
    discrimination: (right - wrong) / Math.max(1, decided.length),
    discriminationInterval: negated(dropInterval(flips)),
    discriminationBounds,
    bias: biasOf(pairs),
    humanLength: lengthCorrelation(pairs.map(({ human, lengths }) => ({ judgement: human, lengths }))),
    isFit: agreementInterval[0] > chance && discriminationBounds[0] > 0,
  };
}

const negated = ([low, high]: Interval): Interval => [-high, -low];

export interface CorrectedRate {
  readonly rate: number;
  readonly interval: Interval;
}

/**
 * The estimated win rate by human verdicts. A judge that is asked in both orders errs equally for either side, so its
 * sensitivity equals its specificity, and Rogan and Gladen's estimate (American Journal of Epidemiology 107, 1978, 71)
 * becomes: wins less losses, divided by the discrimination.
 * @returns undefined for an unfit judge
 */
export function correctedRate(
  { numPairs, numWon, numLost, numNone }: WinRate,
  by: Calibration,
): CorrectedRate | undefined {
  if (!by.isFit) return undefined;
  const flips = { numItems: numPairs - numNone, numWon, numLost };
  const drop = (numLost - numWon) / Math.max(1, flips.numItems);
  const interval = ratioWithin(drop, dropInterval(flips), by.discrimination, by.discriminationInterval);
  return { rate: rateOfDrop(clipped(drop / by.discrimination)), interval: rateInterval(interval) };
}

export type GateVerdict = Verdict | "refused";

/**
 * Whether people would see a loss below the margin, with 95 % confidence.
 * @param maxDrop losses minus wins, as a share of the pairs
 */
export function judgeGate(winRate: WinRate, by: Calibration, maxDrop: number): GateVerdict {
  if (!by.isFit) return "refused";
  const flips = guardedFlips(winRate);
  const drop = (flips.numLost - flips.numWon) / Math.max(1, flips.numItems);
  const [low, high] = ratioWithin(drop, dropBounds(flips), by.discrimination, by.discriminationBounds);
  if (high < maxDrop) return "passes";
  return low > maxDrop ? "fails" : "undecided";
}

const clipped = (share: number): number => Math.max(-1, Math.min(1, share));

/**
 * Interval of value ÷ divisor from the intervals of both, within ±1: MOVER (Donner and Zou, Statistical Methods in
 * Medical Research 21, 2012, 347).
 * @param divisor and the lower end of its interval: above 0
 */
export function ratioWithin(value: number, within: Interval, divisor: number, divisorWithin: Interval): Interval {
  return [
    lowerOfRatio(value, within[0], divisor, divisorWithin),
    -lowerOfRatio(-value, -within[1], divisor, divisorWithin),
  ];
}

const BISECTIONS = 50;

/** The ratio at which the lower end of value − ratio · divisor is 0. */
function lowerOfRatio(value: number, valueLow: number, divisor: number, [low, high]: Interval): number {
  const end = valueLow >= 0 ? high : low;
  let [least, most] = [-1, 1];
  for (let i = 0; i < BISECTIONS; i++) {
    const ratio = (least + most) / 2;
    const half = Math.hypot(value - valueLow, ratio * (divisor - end));
    if (value - ratio * divisor - half > 0) least = ratio;
    else most = ratio;
  }
  return (least + most) / 2;
}
