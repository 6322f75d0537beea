/**
 * Trains a router from labelled examples, and chooses the floor at which it keeps answers. Depends on its arguments
 * only.
 */
import { calibrated, fitIsotonic, type Isotonic } from "./isotonic.js";
import { fitLogistic, type Logistic, logisticScore } from "./logistic.js";

export interface Example {
  /** Values in the order of FEATURE_NAMES. */
  readonly features: readonly number[];
  /** 1 if the small model's answer is as good as the large one's, else 0. */
  readonly isAsGood: number;
}

interface TrainedRouter {
  readonly logistic: Logistic;
  readonly isotonic: Isotonic;
  /** Least probability at which an answer is kept; 1: none is. */
  readonly floor: number;
  /** Measured on examples that the scores were not fitted to. */
  readonly keptShare: number;
  readonly loss: number;
}

const NUM_FOLDS = 5;
/** Strength of the penalty, in examples: some dozens of weights from some hundreds of examples would fit noise. */
const RIDGE = 20;
/** Chance that the loss is above its bound although the floor was accepted. */
const DELTA = 0.05;

/** @param maxLoss largest share of all requests that may get a worse answer */
export function trainRouter(examples: readonly Example[], maxLoss: number): TrainedRouter {
  const labels = examples.map(({ isAsGood }) => isAsGood);
  const rows = examples.map(({ features }) => features);
  const scores = outOfFoldScores(rows, labels);
  const isotonic = fitIsotonic(scores, labels);
  const probabilities = scores.map((score) => calibrated(isotonic, score));
  const floor = chooseFloor(probabilities, labels, maxLoss);
  const isKept = probabilities.map((probability) => probability >= floor);
  const numKept = isKept.filter(Boolean).length;
  const numLost = labels.filter((label, index) => isKept[index] && label === 0).length;
  return {
    logistic: fitLogistic(rows, labels, RIDGE),
    isotonic,
    floor,
    keptShare: numKept / examples.length,
    loss: numLost / examples.length,
  };
}

/** Each example's score by a model that has not seen it: calibration on seen examples would call too much certain. */
function outOfFoldScores(rows: readonly (readonly number[])[], labels: readonly number[]): number[] {
  const scores = new Array<number>(rows.length).fill(0.5);
  for (let fold = 0; fold < NUM_FOLDS; fold++) {
    const isInside = (_: unknown, index: number): boolean => index % NUM_FOLDS !== fold;
    const inside = rows.filter(isInside);
    if (inside.length === 0) continue;
    const model = fitLogistic(inside, labels.filter(isInside), RIDGE);
    for (let index = fold; index < rows.length; index += NUM_FOLDS) scores[index] = logisticScore(model, rows[index]!);
  }
  return scores;
}

/**
 * The lowest floor whose loss is shown to be at most `maxLoss`. Floors are tested from the strictest on, and the first
 * that fails ends the search: a fixed sequence of tests needs no correction for their number.
 */
export function chooseFloor(probabilities: readonly number[], labels: readonly number[], maxLoss: number): number {
  const floors = [...new Set(probabilities)].sort((a, b) => b - a);
  let chosen = 1;
  for (const floor of floors) {
    const numLost = labels.filter((label, index) => probabilities[index]! >= floor && label === 0).length;
    if (binomialCdf(numLost, labels.length, maxLoss) > DELTA) break;
    chosen = floor;
  }
  return chosen;
}

/** P(X ≤ k) of a binomial variable, summed in logarithms. */
export function binomialCdf(k: number, n: number, p: number): number {
  if (k >= n) return 1;
  let logTerm = n * Math.log1p(-p);
  let sum = Math.exp(logTerm);
  for (let i = 1; i <= k; i++) {
    logTerm += Math.log((n - i + 1) / i) + Math.log(p) - Math.log1p(-p);
    sum += Math.exp(logTerm);
  }
  return Math.min(1, sum);
}
