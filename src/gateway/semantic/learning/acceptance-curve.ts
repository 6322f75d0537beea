/**
 * How likely a stored answer of a given similarity is wrong, at the pessimistic end of a confidence band. The idea is
 * vCache's (arXiv 2502.03771): a threshold that is learned from verified hits, with a bound on the errors, instead of
 * one constant. The maths here is our own: a logistic regression with Jeffreys' prior (Firth, 1993), which stays finite
 * if the two kinds do not overlap, and the normal band of its logit.
 */
import { upperBound } from "./clopper-pearson.js";

export interface Sample {
  /** Cosine of the two questions. */
  readonly similarity: number;
  /** Whether the stored answer was right for the new question. */
  readonly isSame: boolean;
}

/** One-sided 95 %. */
const CONFIDENCE = 0.95;
const Z = 1.6449;

export class AcceptanceCurve {
  readonly #num: number;
  readonly #numWrong: number;
  readonly #fit: Fit | undefined;

  constructor(samples: readonly Sample[]) {
    this.#num = samples.length;
    this.#numWrong = samples.filter(({ isSame }) => !isSame).length;
    // Without an error there is nothing to fit, and the exact bound is tighter.
    if (this.#numWrong > 0) this.#fit = fitOf(samples);
  }

  /** Upper bound of the probability that a hit of this similarity is wrong; 1 without samples. */
  worstCase(similarity: number): number {
    if (this.#fit === undefined) return upperBound(this.#numWrong, this.#num, CONFIDENCE);
    const { mean, scale, intercept, slope, covariance } = this.#fit;
    const x = (similarity - mean) / scale;
    const variance = covariance[0] + 2 * x * covariance[1] + x * x * covariance[2];
    const logit = intercept + slope * x - Z * Math.sqrt(Math.max(variance, 0));
    return 1 / (1 + Math.exp(logit));
  }
}

interface Fit {
  readonly mean: number;
  readonly scale: number;
  readonly intercept: number;
  readonly slope: number;
  /** Covariance of intercept and slope: its upper triangle. */
  readonly covariance: readonly [number, number, number];
}

const MAX_STEPS = 50;
/** Upper bound of one Newton step, in either parameter. */
const MAX_CHANGE = 2;

function fitOf(samples: readonly Sample[]): Fit {
  const mean = samples.reduce((sum, { similarity }) => sum + similarity, 0) / samples.length;
  const squares = samples.reduce((sum, { similarity }) => sum + (similarity - mean) ** 2, 0);
  const scale = Math.max(Math.sqrt(squares / samples.length), 1e-6);
  const xs = samples.map(({ similarity }) => (similarity - mean) / scale);
  let [intercept, slope] = [0, 0];
  let covariance: [number, number, number] = [1, 0, 1];
  for (let step = 0; step < MAX_STEPS; step++) {
    const probabilities = xs.map((x) => 1 / (1 + Math.exp(-intercept - slope * x)));
    covariance = inverseInformation(xs, probabilities);
    let [first, second] = [0, 0];
    for (const [i, x] of xs.entries()) {
      const p = probabilities[i]!;
      const leverage = p * (1 - p) * (covariance[0] + 2 * x * covariance[1] + x * x * covariance[2]);
      const residual = (samples[i]!.isSame ? 1 : 0) - p + leverage * (0.5 - p);
      first += residual;
      second += residual * x;
    }
    const changes = [
      covariance[0] * first + covariance[1] * second,
      covariance[1] * first + covariance[2] * second,
    ] as const;
    const factor = Math.min(1, MAX_CHANGE / Math.max(...changes.map(Math.abs), 1e-12));
    intercept += factor * changes[0];
    slope += factor * changes[1];
    if (Math.max(...changes.map(Math.abs)) < 1e-8) break;
  }
  return { mean, scale, intercept, slope, covariance };
}

function inverseInformation(xs: readonly number[], probabilities: readonly number[]): [number, number, number] {
  let [a, b, c] = [1e-9, 0, 1e-9];
  for (const [i, x] of xs.entries()) {
    const weight = probabilities[i]! * (1 - probabilities[i]!);
    a += weight;
    b += weight * x;
    c += weight * x * x;
  }
  const determinant = Math.max(a * c - b * b, 1e-12);
  return [c / determinant, -b / determinant, a / determinant];
}
