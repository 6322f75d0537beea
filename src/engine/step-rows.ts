/** Lays a sequence's tokens out as rows of a step. */
import type { Sequence } from "./sequence.js";
import type { StepBatch } from "./step-batch.js";

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
