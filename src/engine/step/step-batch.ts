/**
 * The inputs of one step for all its sequences: the only batch type of the engine. Every step reuses its arrays.
 * Position (the token's place in the text) and slot (where its K and V are stored) are separate, which leaves room for
 * draft trees and evicted blocks.
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
  /**
   * For an encoder: how many entries a row of its windowed layers sees, half of the others on each side; absent: no
   * layer has a window.
   */
  readonly encoderWindow?: number;
}

type Ints = HostBuffer<"i32">;

export class StepBatch {
  /** Rows of this step, at most capacity.maxRows. */
  numRows = 0;
  numLogitRows = 0;
  numHiddenTaps = 0;
  numKvCopies = 0;
  numObservedRows = 0;
  /** [maxRows] each */
  readonly tokenIds: Ints;
  readonly positions: Ints;
  /** Whether the token is in the first of a request's two texts, 0, or in the second, 1. */
  readonly tokenTypes: Ints;
  /** Per group [maxRows]: stored entries that the row attends to, its own included. */
  readonly kvLengths: readonly Ints[];
  /**
   * [maxRows] each: in an encoder's windowed layers, the first entry that the row attends to, and the one after the
   * last.
   */
  readonly windowBegins: Ints;
  readonly windowEnds: Ints;
  /** [maxRows]: the seat of the row's sequence, that is its row of the block tables. */
  readonly sequenceIndex: Ints;
  /** Per group [maxRows]: slot = block · blockSize + offset. */
  readonly kvSlots: readonly Ints[];
  /** [maxSeats]: rows whose keys and values are stored a second time, for alternatives to the tokens after them. */
  readonly kvCopyRows: Ints;
  /** Per group [maxSeats]: slots of these second copies. */
  readonly kvCopySlots: readonly Ints[];
  /** Per group [maxSeats, tableStride]; a seat's row is written when its sequence gets blocks. */
  readonly blockTables: readonly Ints[];
  /** [maxLogitRows]: rows that get logits. */
  readonly logitRows: Ints;
  /** [maxRows]: rows that keep their hidden state after the final norm, each once. */
  readonly hiddenTaps: Ints;
  /** [maxRows]: rows whose attention is counted, since it decides which entries stay. */
  readonly observedRows: Ints;
  /**
   * [maxRows] each, as `deltaRule` reads them: the slot of the recurrent state that the row continues, and the one that
   * keeps the state after it (`StateSlots`).
   */
  readonly stateSources: Ints;
  readonly stateTargets: Ints;
  /** [maxRows]: the slot that keeps the state after the row for other sequences. */
  readonly stateSnapshots: Ints;

  constructor(
    readonly capacity: StepCapacity,
    backend: Backend,
    /**
     * Tables of another batch, whose sequences share their blocks with these rows; absent: the batch has tables of its
     * own.
     */
    sharedTables?: readonly Ints[],
  ) {
    const ints = (length: number) => backend.input("i32", length);
    const { maxRows, maxLogitRows, maxSeats, tableStride, numGroups } = capacity;
    this.tokenIds = ints(maxRows);
    this.positions = ints(maxRows);
    this.tokenTypes = ints(maxRows);
    // Heads have no KV group of their own and read one of the model's, so there is at least one list.
    this.kvLengths = Array.from({ length: Math.max(1, numGroups) }, () => ints(maxRows));
    this.windowBegins = ints(maxRows);
    this.windowEnds = ints(maxRows);
    this.sequenceIndex = ints(maxRows);
    this.kvSlots = Array.from({ length: numGroups }, () => ints(maxRows));
    this.blockTables = sharedTables ?? Array.from({ length: numGroups }, () => ints(maxSeats * tableStride));
    this.kvCopyRows = ints(maxSeats);
    this.kvCopySlots = Array.from({ length: numGroups }, () => ints(maxSeats));
    this.logitRows = ints(maxLogitRows);
    this.hiddenTaps = ints(maxRows);
    this.observedRows = ints(maxRows);
    this.stateSources = ints(maxRows);
    this.stateTargets = ints(maxRows);
    this.stateSnapshots = ints(maxRows);
  }

  clear(): void {
    this.numRows = 0;
    this.numLogitRows = 0;
    this.numHiddenTaps = 0;
    this.numKvCopies = 0;
    this.numObservedRows = 0;
  }
}

/** Completes the seat's rows of the block tables. */
export function writeBlockTables(batch: StepBatch, sequence: Sequence): void {
  const start = sequence.seat * batch.capacity.tableStride;
  const { numTableEntriesWritten } = sequence;
  sequence.blockTables.forEach((table, group) => {
    const { values } = batch.blockTables[group]!;
    for (let i = numTableEntriesWritten[group]!; i < table.length; i++) values[start + i] = table[i]!;
    numTableEntriesWritten[group] = table.length;
  });
}

/** The facts of `EngineInfo` that a row's inputs depend on besides its sequence. */
interface RowTraits {
  readonly blockSize: number;
  /** A token sees only those before it; false: the whole text. */
  readonly isCausal: boolean;
  readonly numTokenTypes: number;
}

/** Values of `stateSources` that are no slot, and of `stateTargets`. */
const EMPTY_STATE = -1;
const STATE_OF_ROW_BEFORE = -2;
const NO_SLOT = -1;

/**
 * Appends the row that computes the token at `position`. Where its state comes from a slot or goes to one, `StateSlots`
 * says so.
 */
export function addRow(
  batch: StepBatch,
  sequence: Sequence,
  position: number,
  { blockSize, isCausal, numTokenTypes }: RowTraits,
): void {
  const row = batch.numRows++;
  batch.tokenIds.values[row] = sequence.tokens[position]!;
  batch.positions.values[row] = position;
  batch.tokenTypes.values[row] = numTokenTypes > 1 && position >= sequence.secondTextStart ? 1 : 0;
  const half = ((batch.capacity.encoderWindow ?? 1) - 1) / 2;
  batch.windowBegins.values[row] = Math.max(0, position - half);
  batch.windowEnds.values[row] = Math.min(sequence.numTokens, position + half + 1);
  batch.sequenceIndex.values[row] = sequence.seat;
  batch.stateSources.values[row] = position === 0 ? EMPTY_STATE : STATE_OF_ROW_BEFORE;
  batch.stateTargets.values[row] = NO_SLOT;
  batch.stateSnapshots.values[row] = NO_SLOT;
  const numEntries = isCausal ? position + 1 : sequence.numTokens;
  const block = Math.floor(position / blockSize);
  sequence.blockTables.forEach((table, group) => {
    const numEvicted = sequence.numEvicted[group]!;
    batch.kvLengths[group]!.values[row] = numEntries - numEvicted * blockSize;
    batch.kvSlots[group]!.values[row] = table[block - numEvicted]! * blockSize + (position % blockSize);
  });
}
