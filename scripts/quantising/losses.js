/**
 * Measures the losses of quantised copies on a text, window by window, so that two copies can be compared over the same
 * windows.
 */
import { createBackend } from "../../dist/src/backend/create/create-backend.js";
import { divergenceOf, openScorer } from "../../dist/src/bench/engine/divergence.js";
import { uniform } from "../../dist/src/core/random.js";
import { openModel } from "../../dist/src/model/open-model.js";

const RESAMPLES = 2000;
const SEED = 181;

/** Keeps the original open while copies come and go. */
export class LossMeter {
  static async open(model, windows, numThreads) {
    const maxModelLen = windows.reduce((most, { length }) => Math.max(most, length), 0);
    const open = async (modelPath) => {
      const backend = createBackend({ numThreads });
      const core = await openScorer(openModel(modelPath), { modelPath, numThreads, maxModelLen }, backend);
      const close = async () => {
        await core.close();
        backend.destroy();
      };
      return { core, close };
    };
    return new LossMeter(windows, open, await open(model));
  }

  constructor(windows, open, original) {
    Object.assign(this, { windows, open, original });
  }

  /**
   * Sums for each window: compared tokens, their KL divergence, tokens with the same likeliest prediction, and the
   * text's negative log-likelihoods.
   */
  async of(copy) {
    const tested = await this.open(copy);
    const sums = [];
    try {
      for (const ids of this.windows) {
        const loss = await divergenceOf(this.original.core, tested.core, [ids]);
        const { numTokens, meanKl, sameTop, referencePerplexity, testedPerplexity } = loss;
        const numScored = ids.length - 1;
        sums.push({
          numTokens,
          numScored,
          kl: numTokens * meanKl,
          numSame: numTokens * sameTop,
          nllBefore: numScored * Math.log(referencePerplexity),
          nll: numScored * Math.log(testedPerplexity),
        });
      }
    } finally {
      await tested.close();
    }
    return sums;
  }

  close() {
    return this.original.close();
  }
}

const total = (windows, key) => windows.reduce((sum, window) => sum + window[key], 0);

export function summaryOf(windows) {
  const [numTokens, numScored] = [total(windows, "numTokens"), total(windows, "numScored")];
  return {
    numTokens,
    kl: total(windows, "kl") / numTokens,
    sameTop: total(windows, "numSame") / numTokens,
    perplexity: Math.exp(total(windows, "nll") / numScored),
    perplexityBefore: Math.exp(total(windows, "nllBefore") / numScored),
  };
}

/** Ratios of one copy's KL divergence and perplexity to another's, with 95 % intervals from resampled windows. */
export function versus(ours, theirs) {
  const random = uniform(SEED);
  const kl = (indices) =>
    indices.reduce((sum, i) => sum + ours[i].kl, 0) / indices.reduce((sum, i) => sum + theirs[i].kl, 0);
  const perplexity = (indices) => {
    const numScored = indices.reduce((sum, i) => sum + ours[i].numScored, 0);
    return Math.exp(indices.reduce((sum, i) => sum + ours[i].nll - theirs[i].nll, 0) / numScored);
  };
  const all = ours.map((_, i) => i);
  const draws = Array.from({ length: RESAMPLES }, () => all.map(() => Math.floor(random() * all.length)));
  const withInterval = (of) => {
    const sorted = draws.map(of).sort((a, b) => a - b);
    return {
      ratio: of(all),
      low: sorted[Math.floor(0.025 * RESAMPLES)],
      high: sorted[Math.ceil(0.975 * RESAMPLES) - 1],
    };
  };
  return { kl: withInterval(kl), perplexity: withInterval(perplexity) };
}
