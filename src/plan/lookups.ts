/**
 * Drafts by prompt lookup: tokens that followed the same words earlier in the request's own text. Their gain depends on
 * the text alone, so that no prediction counts it. They are planned up to as many sequences as their rows cost next to
 * nothing for: vLLM computes those of wrong drafts, and of none, too.
 */
import { SPECULATION } from "./data/constants.js";
import { rowsEach, type Settled } from "./evaluate.js";
import { headsFor } from "./heads.js";
import type { Lookups, PlanRequest } from "./request.js";
import { DECODE, stepTime } from "./step-time.js";

/** A step of so many sequences with drafts, as a multiple of one without. */
function stretchOf({ inputTokens, outputTokens }: PlanRequest, { instance }: Settled, numDecoding: number): number {
  const { lookupDepth, lookupSeconds } = SPECULATION;
  const work = { ...DECODE, numDecoding, context: inputTokens + outputTokens / 2 };
  const drafted = stepTime(instance, { ...work, rowsEach: 1 + lookupDepth.value }).totalSeconds + lookupSeconds.value;
  return drafted / stepTime(instance, work).totalSeconds;
}

/** @returns undefined where heads are known, on CPUs, and for other engines than vLLM, for which none are planned */
export function lookupsOf(request: PlanRequest, settled: Settled): Lookups | undefined {
  const { engine, instance, drafting, maxNumSeqs, maxNumBatchedTokens } = settled;
  if (engine !== "vllm" || instance.machine.kind === "cpu") return undefined;
  if (drafting !== undefined || headsFor(request.model, engine) !== undefined) return undefined;
  // Groups that share experts are mixtures under load, for which drafts only cost.
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

/** vLLM's own form: lookups of two to `depth` tokens, and none in steps of more sequences. */
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
