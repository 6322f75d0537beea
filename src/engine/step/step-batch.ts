/**
 * One step's inputs, for all sequences in it: the only batch type of the engine. Every step reuses its arrays. Position (what rope sees) and slot (where K and V are stored) are separate, so that draft trees and evicted
 * blocks fit in later without another type.
 */

import type { Backend, HostBuffer } from "../../backend/backend.js";
import type { Sequence } from "./sequence.js";

export interface StepCapacity {
  readonly maxRows: number;
  readonly maxLogitRows: number;
  readonly maxSeats: number;
  /** Blocks of the longest sequence. */
  readonly tableStride: number;
  readonly numGroups: number;
}

type Ints = HostBuffer<"i32">;

export class StepBatch {
  /** Rows used in this step, of capacity.maxRows. */
  numRows = 0;
  numLogitRows = 0;
  numHiddenTaps = 0;
  /** [maxRows] each */
  readonly tokenIds: Ints;
  readonly positions: Ints;
  /** Entries of the past that a row sees, its own included. */
  readonly kvLengths: Ints;
  /** The row of the block tables in which the sequence of a token has its blocks. */
  readonly sequenceIndex: Ints;
  /** Per group [maxRows]: slot = block · blockSize + offset. */
  readonly kvSlots: readonly Ints[];
  /** Per group [maxSeats, tableStride]; a seat's row is written when its sequence gets blocks. */
  readonly blockTables: readonly Ints[];
  /** [maxLogitRows]: rows whose logits are wanted. */
  readonly logitRows: Ints;
  /** [maxRows]: rows whose hidden state after the final norm is wanted, each once. */
  readonly hiddenTaps: Ints;

  constructor(
    readonly capacity: StepCapacity,
    backend: Backend,
  ) {
    const ints = (length: number) => backend.input("i32", length);
    const { maxRows, maxLogitRows, maxSeats, tableStride, numGroups } = capacity;
    this.tokenIds = ints(maxRows);
    this.positions = ints(maxRows);
    this.kvLengths = ints(maxRows);
    this.sequenceIndex = ints(maxRows);
    this.kvSlots = Array.from({ length: numGroups }, () => ints(maxRows));
    this.blockTables = Array.from({ length: numGroups }, () => ints(maxSeats * tableStride));
    this.logitRows = ints(maxLogitRows);
    this.hiddenTaps = ints(maxRows);
  }

  clear(): void {
    this.numRows = 0;
    this.numLogitRows = 0;
    this.numHiddenTaps = 0;
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
  batch.sequenceIndex.values[row] = sequence.seat;
  const block = Math.floor(position / blockSize);
  sequence.blockTables.forEach((table, group) => {
    batch.kvSlots[group]!.values[row] = table[block]! * blockSize + (position % blockSize);
  });
}
