/** Lays sequences' tokens out as the rows of a step, and tells which of them need logits. */
import type { EngineParts } from "./engine-parts.js";
import type { ScheduledSequence } from "./scheduler.js";
import type { Sequence } from "./sequence.js";
import type { StepBatch } from "./step-batch.js";

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

/** Lays out all the sequences' new tokens and drafts, with what the sampler needs for those that get logits. */
export function layOutStep(parts: EngineParts, scheduled: readonly ScheduledSequence[], nowMs: number): void {
  const { batch, sampler } = parts;
  batch.clear();
  sampler.clear();
  for (const { sequence, numNewTokens } of scheduled) {
    sequence.queueMs ??= nowMs - sequence.arrivedAtMs;
    writeBlockTables(batch, sequence);
    const end = sequence.numComputedTokens + numNewTokens + sequence.numDraftTokens;
    for (let position = sequence.numComputedTokens; position < end; position++) layOutRow(parts, sequence, position);
  }
}

function layOutRow({ batch, sampler, constraints, info }: EngineParts, sequence: Sequence, position: number): void {
  const row = batch.numRows;
  addRow(batch, sequence, position, info.blockSize);
  if (sequence.pooler?.wants(position)) batch.hiddenTaps.values[batch.numHiddenTaps++] = row;
  if (needsScore(sequence, position)) {
    batch.logitRows.values[batch.numLogitRows++] = row;
    sampler.addScoreRow(sequence.tokens[position + 1]!, sequence.sampling.numPromptLogprobs ?? 0);
  } else if (needsSample(sequence, position)) {
    batch.logitRows.values[batch.numLogitRows++] = row;
    const mask = constraints.maskOf(sequence, position + 1 - sequence.numTokens);
    sampler.addSampleRow(sequence, position + 1, mask);
  }
}

/** The seat's rows of the block tables get the entries they lack. */
export function writeBlockTables(batch: StepBatch, sequence: Sequence): void {
  const start = sequence.seat * batch.capacity.tableStride;
  sequence.blockTables.forEach((table, group) => {
    const { values } = batch.blockTables[group]!;
    for (let i = sequence.numTableEntriesWritten; i < table.length; i++) values[start + i] = table[i]!;
  });
  sequence.numTableEntriesWritten = sequence.blockTables[0]!.length;
}

/** The row that computes the token at `position`; its number is batch.numRows − 1 afterwards. */
export function addRow(batch: StepBatch, sequence: Sequence, position: number, blockSize: number): void {
  const row = batch.numRows++;
  batch.tokenIds.values[row] = sequence.tokens[position]!;
  batch.positions.values[row] = position;
  batch.kvLengths.values[row] = position + 1;
  batch.seats.values[row] = sequence.seat;
  const block = Math.floor(position / blockSize);
  sequence.blockTables.forEach((table, group) => {
    batch.kvSlots[group]!.values[row] = table[block]! * blockSize + (position % blockSize);
  });
}
