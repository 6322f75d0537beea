/** Which rows a step has, and which of them need logits. */
import type { ScheduledSequence } from "./scheduler.js";
import type { Sequence } from "./sequence.js";

export interface StepRows {
  /** Rows of sequences that decode, drafts among them. */
  readonly numDecoding: number;
  readonly numPrompt: number;
}

/** Before the step's results are taken in. */
export function countRows(scheduled: readonly ScheduledSequence[]): StepRows {
  let [numDecoding, numPrompt] = [0, 0];
  for (const { sequence, numNewTokens } of scheduled) {
    if (numNewTokens === 1) numDecoding += 1 + sequence.numDraftTokens;
    else numPrompt += numNewTokens;
  }
  return { numDecoding, numPrompt };
}

/** The prompt token after `position` still lacks its log-probability. */
export function needsScore(sequence: Sequence, position: number): boolean {
  if (sequence.promptLogprobs === undefined) return false;
  return position < sequence.numPromptTokens - 1 && position >= sequence.promptLogprobs.length - 1;
}

export function needsSample(sequence: Sequence, position: number): boolean {
  return position >= sequence.numTokens - 1 && sequence.sampling.maxTokens > 0;
}
