/** Compares the predictions of two engines for the same text. */
import type { Backend } from "../../backend/backend.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../../engine/api/options.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { EngineCore } from "../../engine/engine-core.js";
import type { OpenModel } from "../../model/open-model.js";
import { percentile } from "../measure/percentiles.js";

export interface Divergence {
  readonly numTokens: number;
  /** Kullback-Leibler divergence KL(reference ‖ tested) of the next token's distribution, in nats. */
  readonly meanKl: number;
  /** Undefined if there are too few positions. */
  readonly p99Kl: number | undefined;
  readonly maxKl: number;
  /** Share of the positions with the same likeliest token. */
  readonly sameTop: number;
  /** exp of the mean negative log-likelihood of the text's next tokens. */
  readonly referencePerplexity: number;
  readonly testedPerplexity: number;
}

/** An engine that scores windows of at most `maxModelLen` tokens. */
export function openScorer(
  model: OpenModel,
  shape: Pick<EngineOptions, "modelPath" | "numThreads"> & { readonly maxModelLen: number } & Partial<EngineOptions>,
  backend: Backend,
): Promise<EngineCore> {
  const alone = { maxNumSeqs: 1, enablePrefixCaching: false, speculative: NO_SPECULATION };
  return EngineCore.create(model, { ...DEFAULT_ENGINE_OPTIONS, ...shape, ...alone }, backend);
}

/**
 * @param windows token ids of texts, at least two tokens each, computed separately
 * @param numDecoded tokens at the end of each that are decoded one by one; if there are some, their predictions alone are compared
 */
export async function divergenceOf(
  reference: EngineCore,
  tested: EngineCore,
  windows: readonly (readonly number[])[],
  onWindow: (numTokens: number, meanKl: number) => void = () => {},
  numDecoded = 0,
): Promise<Divergence> {
  const kls: number[] = [];
  let numSame = 0;
  let referenceNll = 0;
  let testedNll = 0;
  let numScored = 0;
  for (const ids of windows) {
    const expected: Float64Array[] = [];
    await reference.textLogits(ids, (logits) => expected.push(logSoftmax(logits)), numDecoded);
    const first = ids.length - expected.length;
    let numRead = 0;
    const compare = (logits: Float32Array) => {
      const p = expected[numRead++]!;
      const q = logSoftmax(logits);
      kls.push(klOf(p, q));
      numSame += Number(argMax(p) === argMax(q));
      const next = ids[first + numRead];
      if (next === undefined) return;
      referenceNll -= p[next]!;
      testedNll -= q[next]!;
      numScored++;
    };
    await tested.textLogits(ids, compare, numDecoded);
    onWindow(kls.length, meanOf(kls));
  }
  return {
    numTokens: kls.length,
    meanKl: meanOf(kls),
    p99Kl: percentile(
      [...kls].sort((a, b) => a - b),
      0.99,
    ),
    maxKl: kls.reduce((max, kl) => Math.max(max, kl), 0),
    sameTop: numSame / kls.length,
    referencePerplexity: Math.exp(referenceNll / numScored),
    testedPerplexity: Math.exp(testedNll / numScored),
  };
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Log-probabilities in nats, in double precision. */
export function logSoftmax(logits: Float32Array): Float64Array {
  const values = Float64Array.from(logits);
  const max = values[argMax(values)]!;
  const logSum = max + Math.log(values.reduce((sum, value) => sum + Math.exp(value - max), 0));
  return values.map((value) => value - logSum);
}

/** KL(p ‖ q) of two distributions given as log-probabilities. Tokens of probability 0 under `p` add nothing. */
export function klOf(p: Float64Array, q: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < p.length; i++) {
    const share = Math.exp(p[i]!);
    if (share > 0) sum += share * (p[i]! - q[i]!);
  }
  return sum;
}

/** The index of the first maximum. */
function argMax(values: Float64Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}
