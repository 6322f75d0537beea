/** How often the model chose a token that it gave a low probability, if the upstream gave log-probabilities. */
import type { Check } from "./check.js";

/** A token that the model gave less than one chance in ten. */
const UNLIKELY = Math.log(0.1);
const MIN_TOKENS = 8;
/** Sampled prose has a few such tokens in a hundred. */
const MAX_SHARE = 0.25;

export const uncertainty: Check = ({ answer: { logprobs } }) => {
  if (logprobs.length < MIN_TOKENS) return undefined;
  const share = logprobs.filter((logprob) => logprob < UNLIKELY).length / logprobs.length;
  const isFailing = share > MAX_SHARE;
  return { badness: share, isFailing, ...(isFailing ? { note: `${Math.round(100 * share)} % unlikely tokens` } : {}) };
};
