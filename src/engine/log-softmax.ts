/** Distributions of the next token as log-probabilities in nats, and how far one is from another. */

/** Log-probabilities, in double precision. */
export function logSoftmax(logits: Float32Array): Float64Array {
  const values = Float64Array.from(logits);
  const max = values[argMax(values)]!;
  const logSum = max + Math.log(values.reduce((sum, value) => sum + Math.exp(value - max), 0));
  return values.map((value) => value - logSum);
}

/** The Kullback-Leibler divergence KL(p ‖ q). Tokens of probability 0 under `p` add nothing. */
export function klOf(p: Float64Array | Float32Array, q: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < p.length; i++) {
    const share = Math.exp(p[i]!);
    if (share > 0) sum += share * (p[i]! - q[i]!);
  }
  return sum;
}

/** The index of the first maximum. */
export function argMax(values: Float64Array | Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}
