/** Exact confidence bounds of a share (Clopper and Pearson, 1934), each one-sided. */

/**
 * @returns the largest share of wrong ones that `numWrong` of `num` leave possible at the confidence; 1 without
 * observations
 */
export function upperBound(numWrong: number, num: number, confidence = 0.95): number {
  if (numWrong >= num) return 1;
  return quantile(confidence, numWrong + 1, num - numWrong);
}

/**
 * @returns the smallest share of wrong ones that the observations leave possible at the confidence; 0 without
 * observations
 */
export function lowerBound(numWrong: number, num: number, confidence = 0.95): number {
  if (numWrong <= 0) return 0;
  return quantile(1 - confidence, numWrong, num - numWrong + 1);
}

/** The quantile of a beta distribution, by bisection. */
function quantile(share: number, a: number, b: number): number {
  let [low, high] = [0, 1];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (regularizedBeta(middle, a, b) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** I_x(a, b), by its continued fraction on the side of fast convergence. */
function regularizedBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  return x < (a + 1) / (a + b + 2) ? (front * fraction(x, a, b)) / a : 1 - (front * fraction(1 - x, b, a)) / b;
}

/** The modified Lentz method. */
function fraction(x: number, a: number, b: number): number {
  const tiny = 1e-300;
  const bounded = (value: number) => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / bounded(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m <= 500; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / bounded(1 + even * d);
    c = bounded(1 + even / c);
    result *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / bounded(1 + odd * d);
    c = bounded(1 + odd / c);
    const change = d * c;
    result *= change;
    if (Math.abs(change - 1) < 1e-14) break;
  }
  return result;
}

/** Stirling's series after a shift, to 1e-12. @param x above 0 */
function logGamma(x: number): number {
  let shift = 0;
  let z = x;
  for (; z < 10; z++) shift -= Math.log(z);
  const r = 1 / (z * z);
  const series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / z;
  return shift + (z - 0.5) * Math.log(z) - z + 0.5 * Math.log(2 * Math.PI) + series;
}
