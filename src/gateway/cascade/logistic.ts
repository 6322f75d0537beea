/** Logistic regression by Newton's method with a ridge, for some dozens of features. */

export interface Logistic {
  readonly means: readonly number[];
  readonly scales: readonly number[];
  readonly weights: readonly number[];
  readonly bias: number;
}

const MAX_STEPS = 50;
const TOLERANCE = 1e-8;
const MAX_LOGIT = 30;

const sigmoid = (logit: number): number => 1 / (1 + Math.exp(-Math.max(-MAX_LOGIT, Math.min(MAX_LOGIT, logit))));

/** A probability that is not calibrated. */
export function logisticScore({ means, scales, weights, bias }: Logistic, features: readonly number[]): number {
  let logit = bias;
  for (let i = 0; i < weights.length; i++) logit += (weights[i]! * (features[i]! - means[i]!)) / scales[i]!;
  return sigmoid(logit);
}

/**
 * @param rows features of each example, all of one length
 * @param labels 0 or 1
 * @param ridge strength of the penalty on the weights of standardised features, in examples
 */
export function fitLogistic(rows: readonly (readonly number[])[], labels: readonly number[], ridge: number): Logistic {
  const numFeatures = rows[0]?.length ?? 0;
  const columns = Array.from({ length: numFeatures }, (_, i) => rows.map((row) => row[i]!));
  const means = columns.map((column) => column.reduce((sum, each) => sum + each, 0) / rows.length);
  const scales = columns.map((column, i) => {
    const variance = column.reduce((sum, each) => sum + (each - means[i]!) ** 2, 0) / rows.length;
    // A constant feature has no information, and gets the weight 0.
    return variance > 1e-12 ? Math.sqrt(variance) : 1;
  });
  const size = numFeatures + 1;
  const inputs = rows.map((row) => [...row.map((each, i) => (each - means[i]!) / scales[i]!), 1]);
  let weights = new Array<number>(size).fill(0);
  for (let step = 0; step < MAX_STEPS; step++) {
    const gradient = new Float64Array(size);
    const hessian = Array.from({ length: size }, () => new Float64Array(size));
    for (const [index, input] of inputs.entries()) {
      const p = sigmoid(input.reduce((sum, each, i) => sum + each * weights[i]!, 0));
      const slope = p * (1 - p);
      for (let i = 0; i < size; i++) {
        gradient[i] = gradient[i]! + (labels[index]! - p) * input[i]!;
        const row = hessian[i]!;
        for (let j = 0; j <= i; j++) row[j] = row[j]! + slope * input[i]! * input[j]!;
      }
    }
    for (let i = 0; i < size; i++) {
      // The bias has next to no penalty, which keeps the matrix regular.
      const penalty = i < numFeatures ? ridge : 1e-6;
      gradient[i] = gradient[i]! - penalty * weights[i]!;
      hessian[i]![i] = hessian[i]![i]! + penalty;
    }
    const change = solve(hessian, gradient);
    weights = weights.map((each, i) => each + change[i]!);
    if (change.every((each) => Math.abs(each) < TOLERANCE)) break;
  }
  return { means, scales, weights: weights.slice(0, numFeatures), bias: weights[numFeatures]! };
}

/**
 * Solves a symmetric positive definite system by Cholesky's method.
 * @param matrix its lower triangle, which is overwritten
 */
function solve(matrix: readonly Float64Array[], right: Float64Array): number[] {
  const size = right.length;
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i]![j]!;
      for (let k = 0; k < j; k++) sum -= matrix[i]![k]! * matrix[j]![k]!;
      matrix[i]![j] = i === j ? Math.sqrt(Math.max(sum, 1e-12)) : sum / matrix[j]![j]!;
    }
  }
  const solution = Array.from(right);
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < i; k++) solution[i] = solution[i]! - matrix[i]![k]! * solution[k]!;
    solution[i] = solution[i]! / matrix[i]![i]!;
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let k = i + 1; k < size; k++) solution[i] = solution[i]! - matrix[k]![i]! * solution[k]!;
    solution[i] = solution[i]! / matrix[i]![i]!;
  }
  return solution;
}
