/**
 * Drafts by prompt lookup: tokens that followed the same words earlier in the request's own text. Their gain depends on
 * the text alone, so predictions leave it out. Plans use them up to the number of sequences at which their rows cost
 * almost nothing: vLLM also computes rows of wrong and of missing drafts.
 */
import { SPECULATION } from "./data/constants.js";
import { rowsEach, type Settled } from "./evaluate.js";
import { headsFor } from "./heads.js";
import type { Lookups, PlanRequest } from "./request.js";
import { DECODE, stepTime } from "./step-time.js";

/** Time of a step of so many sequences with drafts, as a multiple of a step without. */
function stretchOf({ inputTokens, outputTokens }: PlanRequest, { instance }: Settled, numDecoding: number): number {
  const { lookupDepth, lookupSeconds } = SPECULATION;
  const work = { ...DECODE, numDecoding, context: inputTokens + outputTokens / 2 };
  const drafted = stepTime(instance, { ...work, rowsEach: 1 + lookupDepth.value }).totalSeconds + lookupSeconds.value;
  return drafted / stepTime(instance, work).totalSeconds;
}

/** @returns undefined where heads are known, on CPUs, and for every engine except vLLM */
export function lookupsOf(request: PlanRequest, settled: Settled): Lookups | undefined {
  const { engine, instance, drafting, maxNumSeqs, maxNumBatchedTokens } = settled;
  if (engine !== "vllm" || instance.machine.kind === "cpu") return undefined;
  if (drafting !== undefined || headsFor(request.model, engine) !== undefined) return undefined;
  // Groups that share experts are mixture-of-experts models under load, where drafts only cost time.
  if ((settled.dataParallel ?? 1) > 1) return undefined;
  const depth = SPECULATION.lookupDepth.value;
  const most = Math.min(maxNumSeqs, Math.floor(maxNumBatchedTokens / rowsEach(depth)));
  let mostSequences = 0;
  while (mostSequences < most && stretchOf(request, settled, mostSequences + 1) <= SPECULATION.mostLoss.value) {
    mostSequences++;
  }
  return {
    depth,
    mostSequences,
    isBounded: mostSequences < maxNumSeqs,
    stretchOfOne: stretchOf(request, settled, 1),
  };
}

/** vLLM's own form: lookups of two to `depth` tokens, and no drafts in steps of more sequences. */
export const lookupConfig = ({ depth, mostSequences, isBounded }: Lookups, maxNumSeqs: number) => ({
  method: "ngram",
  num_speculative_tokens: depth,
  prompt_lookup_max: depth,
  prompt_lookup_min: 2,
  ...(isBounded
    ? {
        num_speculative_tokens_per_batch_size: [
          [1, mostSequences, depth],
          [mostSequences + 1, maxNumSeqs, 0],
        ],
      }
    : {}),
});
