/** Statistics of judged pairs of answers: the win rate, and the judge's biases, such as for longer answers. */

import type { Judgement, Preference } from "../../text/judge/preference.js";
import { dropInterval, type Flips } from "../paired.js";
import { wilsonInterval } from "../wilson.js";

type Interval = readonly [low: number, high: number];

export interface JudgedPair {
  readonly judgement: Judgement;
  /** The judge's replies in both orders; empty if the answers are equal, in which case the judge is not asked. */
  readonly replies: readonly (Preference | undefined)[];
  /** Characters of the judged answer and of the other one. */
  readonly lengths: readonly [own: number, other: number];
}

export interface WinRate {
  readonly numPairs: number;
  readonly numWon: number;
  readonly numTied: number;
  readonly numLost: number;
  /** Pairs without a verdict, which the rate excludes. */
  readonly numNone: number;
  /** Share of wins, each tie counted half. */
  readonly rate: number;
  /** Two-sided 95 % interval (Tango's score for wins minus losses). */
  readonly interval: Interval;
}

export function winRateOf(pairs: readonly Pick<JudgedPair, "judgement">[]): WinRate {
  const numOf = (wanted: Judgement): number => pairs.filter(({ judgement }) => judgement === wanted).length;
  const [numWon, numTied, numLost, numNone] = [numOf("won"), numOf("tied"), numOf("lost"), numOf("none")];
  const flips = { numItems: pairs.length - numNone, numWon, numLost };
  const rate = rateOfDrop((numLost - numWon) / Math.max(1, flips.numItems));
  return {
    numPairs: pairs.length,
    numWon,
    numTied,
    numLost,
    numNone,
    rate,
    interval: rateInterval(dropInterval(flips)),
  };
}

/** The drop is the share of losses minus the share of wins. */
export const rateOfDrop = (drop: number): number => (1 - drop) / 2;
export const rateInterval = ([low, high]: Interval): Interval => [rateOfDrop(high), rateOfDrop(low)];

/**
 * For a gate: a pair without a verdict counts as lost, so that an answer cannot escape a loss by confusing the judge.
 */
export const guardedFlips = ({ numPairs, numWon, numLost, numNone }: WinRate): Flips => ({
  numItems: numPairs,
  numWon,
  numLost: numLost + numNone,
});

export interface JudgeBias {
  /**
   * Among replies with a preference, the share for the answer shown first: one half without position bias. Undefined if
   * no reply has a preference.
   */
  readonly firstShare: number | undefined;
  readonly firstInterval: Interval;
  /** Among pairs with two replies, the share whose replies agree. */
  readonly consistency: number;
  /**
   * Correlation of the verdict (1, 0 or −1) with the logarithm of the lengths' ratio; undefined if either does not
   * vary.
   */
  readonly length: Correlation | undefined;
}

export function biasOf(pairs: readonly JudgedPair[]): JudgeBias {
  const replies = pairs.flatMap((pair) => pair.replies);
  const numFirst = replies.filter((reply) => reply === "first").length;
  const numDecided = numFirst + replies.filter((reply) => reply === "second").length;
  const asked = pairs.filter(({ replies: [there, back] }) => there !== undefined && back !== undefined);
  const numConsistent = asked.filter(
    ({ judgement, replies: [there, back] }) => judgement !== "tied" || (there === "tie" && back === "tie"),
  ).length;
  return {
    firstShare: numDecided === 0 ? undefined : numFirst / numDecided,
    firstInterval: wilsonInterval(numFirst, numDecided),
    consistency: numConsistent / Math.max(1, asked.length),
    length: lengthCorrelation(pairs),
  };
}

const SCORES: Readonly<Record<Judgement, number>> = { won: 1, tied: 0, none: 0, lost: -1 };

/** Leaves out pairs without a verdict. */
export function lengthCorrelation(
  pairs: readonly Pick<JudgedPair, "judgement" | "lengths">[],
): Correlation | undefined {
  const counted = pairs.filter(({ judgement }) => judgement !== "none");
  return correlationOf(
    counted.map(({ judgement }) => SCORES[judgement]),
    counted.map(({ lengths: [own, other] }) => Math.log((own + 1) / (other + 1))),
  );
}

export interface Correlation {
  readonly value: number;
  /** 95 % interval by Fisher's transform. */
  readonly interval: Interval;
}

const LEAST_PAIRS = 4;
const Z_95 = 1.959964;

/** Pearson's correlation; undefined for fewer than four pairs, or if either side does not vary. */
function correlationOf(x: readonly number[], y: readonly number[]): Correlation | undefined {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(x), mean(y)];
  let [xx, yy, xy] = [0, 0, 0];
  for (const [index, value] of x.entries()) {
    const [dx, dy] = [value - meanX, y[index]! - meanY];
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (x.length < LEAST_PAIRS || xx === 0 || yy === 0) return undefined;
  const value = xy / Math.sqrt(xx * yy);
  const half = Z_95 / Math.sqrt(x.length - 3);
  const transformed = Math.atanh(Math.max(-1, Math.min(1, value)));
  return { value, interval: [Math.tanh(transformed - half), Math.tanh(transformed + half)] };
}
