/**
 * Lays out a step: which row of the batch computes which token of which sequence, and which rows get logits or keep
 * their hidden state.
 */
import type { EngineParts } from "./engine-parts.js";
import type { ScheduledSequence, Sequence } from "./step/sequence.js";
import { addRow, writeBlockTables } from "./step/step-batch.js";

/** A sequence's part of a step: the rows of its new tokens, then those of its draft. */
export interface SequenceRows {
  readonly sequence: Sequence;
  readonly numNewTokens: number;
  readonly numDraftTokens: number;
  /** Logit rows of the alternatives to the first drafted token, and their forks, from these numbers on. */
  readonly firstAlternative: number;
  readonly firstFork: number;
  /** The pooler takes `numTaps` hidden states, from this index of the batch's hidden taps on. */
  readonly firstTap: number;
  readonly numTaps: number;
  /** `numScores` rows score prompt tokens, from this index of the batch's logit rows on. */
  readonly firstScore: number;
  readonly numScores: number;
  /**
   * The logit row of the last new token, which the rows of the draft follow; undefined: the step samples nothing for
   * this sequence.
   */
  readonly firstSample: number | undefined;
}

/** Sequences in the order of the batch's rows. */
export interface StepLayout {
  readonly sequences: readonly SequenceRows[];
  /** Rows of sequences that decode, drafts among them. */
  readonly numDecodingRows: number;
  readonly numPromptRows: number;
}

export function layOutStep(parts: EngineParts, scheduled: readonly ScheduledSequence[], nowMs: number): StepLayout {
  const { batch, sampler, forks } = parts;
  batch.clear();
  sampler.clear();
  forks.clear();
  let [numDecodingRows, numPromptRows] = [0, 0];
  const sequences = scheduled.map(({ sequence, numNewTokens }) => {
    sequence.queueMs ??= nowMs - sequence.arrivedAtMs;
    if (numNewTokens === 1) numDecodingRows += 1 + sequence.numDraftRows;
    else numPromptRows += numNewTokens;
    return layOutSequence(parts, sequence, numNewTokens);
  });
  return { sequences, numDecodingRows, numPromptRows };
}

function layOutSequence(parts: EngineParts, sequence: Sequence, numNewTokens: number): SequenceRows {
  const { batch, sampler, constraints, info } = parts;
  const { numDraftTokens, numComputedTokens, numTokens, sampling } = sequence;
  const firstRow = batch.numRows;
  const firstTap = batch.numHiddenTaps;
  const firstLogitRow = batch.numLogitRows;
  let numScores = 0;
  writeBlockTables(batch, sequence);
  const end = numComputedTokens + numNewTokens + numDraftTokens;
  for (let position = numComputedTokens; position < end; position++) {
    const row = batch.numRows;
    addRow(batch, sequence, position, info);
    if (parts.evictor?.observe(sequence, position) === true) batch.observedRows.values[batch.numObservedRows++] = row;
    if (sequence.pooler?.wants(position)) batch.hiddenTaps.values[batch.numHiddenTaps++] = row;
    if (needsScore(sequence, position)) {
      numScores++;
      batch.logitRows.values[batch.numLogitRows++] = row;
      sampler.addScoreRow(sequence.tokens[position + 1]!, sampling.numPromptLogprobs ?? 0);
    } else if (needsSample(sequence, position)) {
      batch.logitRows.values[batch.numLogitRows++] = row;
      sampler.addSampleRow(sequence, position + 1, constraints.maskOf(sequence, position + 1 - numTokens));
    }
  }
  parts.states?.layOut(batch, sequence, { firstRow, numNewTokens, numDraftTokens });
  const firstSample = firstLogitRow + numScores;
  const hasSample = firstSample < batch.numLogitRows;
  const firstAlternative = batch.numLogitRows;
  const [firstFork = 0] = sequence.alternatives.map((token) => layOutAlternative(parts, sequence, token, firstRow));
  return {
    sequence,
    numNewTokens,
    numDraftTokens,
    firstAlternative,
    firstFork,
    firstTap,
    numTaps: batch.numHiddenTaps - firstTap,
    firstScore: firstLogitRow,
    numScores,
    firstSample: hasSample ? firstSample : undefined,
  };
}

/**
 * Lays out a row for an alternative to the first drafted token, at the same position.
 * @returns the alternative's fork
 */
function layOutAlternative(
  { batch, sampler, forks, info }: EngineParts,
  sequence: Sequence,
  token: number,
  rowBefore: number,
): number {
  const position = sequence.numTokens;
  const row = batch.numRows;
  addRow(batch, sequence, position, info);
  batch.tokenIds.values[row] = token;
  const fork = forks.open(sequence, position, rowBefore);
  batch.logitRows.values[batch.numLogitRows++] = row;
  sampler.addSampleRow(sequence, position + 1);
  return fork;
}

/** Is the log-probability of the prompt token after `position` asked for and not yet known? */
function needsScore(sequence: Sequence, position: number): boolean {
  if (sequence.promptLogprobs === undefined) return false;
  return position < sequence.numPromptTokens - 1 && position >= sequence.promptLogprobs.length - 1;
}

function needsSample(sequence: Sequence, position: number): boolean {
  return position >= sequence.numTokens - 1 && sequence.sampling.maxTokens > 0;
}
