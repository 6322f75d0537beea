/** Compares the predictions of two engines for the same text. */
import type { Backend } from "../../backend/backend.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../../engine/api/options.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { EngineCore } from "../../engine/engine-core.js";
import { argMax, klOf, logSoftmax } from "../../engine/log-softmax.js";
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
 * @param numDecoded number of tokens at each window's end to decode one by one; if above 0, only their predictions are
 *   compared
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
