/** The log-probabilities of a prompt's tokens, from an engine in this process. */
import type { Engine } from "../engine/api/engine.js";
import type { TokenLogprob } from "../engine/api/output.js";
import { GREEDY_SAMPLING } from "../engine/api/request.js";

/** Log-probability of each token except the first. @param numTop number of likeliest tokens to return with each */
export function promptLogprobs(
  engine: Engine,
  promptIds: Int32Array,
  numTop: number,
  signal: AbortSignal,
): Promise<readonly (TokenLogprob | null)[]> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    let scores: readonly (TokenLogprob | null)[] = [];
    const sampling = { ...GREEDY_SAMPLING, maxTokens: 1, numPromptLogprobs: numTop };
    const handle = engine.submit(
      { promptIds, sampling },
      {
        onOutput: (output) => {
          scores = output.promptLogprobs ?? scores;
          if (output.finishReason === undefined) return;
          signal.removeEventListener("abort", onAbort);
          resolve(scores);
        },
        onError: (error) => {
          signal.removeEventListener("abort", onAbort);
          reject(error);
        },
      },
    );
    const onAbort = (): void => {
      handle.abort();
      reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
