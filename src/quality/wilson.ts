/** Confidence interval of a proportion. */

const Z_95 = 1.959964;

/**
 * Wilson's 95 % interval for a proportion: it stays within 0 and 1, and has a width at 0 and at 1.
 *
 * @example wilsonInterval(9, 10) // [0.596, 0.982]
 */
export function wilsonInterval(numSuccesses: number, numTrials: number): readonly [low: number, high: number] {
  if (numTrials === 0) return [0, 1];
  const share = numSuccesses / numTrials;
  const square = Z_95 ** 2 / numTrials;
  const middle = share + square / 2;
  const half = Z_95 * Math.sqrt((share * (1 - share)) / numTrials + square / (4 * numTrials));
  return [Math.max(0, (middle - half) / (1 + square)), Math.min(1, (middle + half) / (1 + square))];
}
