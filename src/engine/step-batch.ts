/**
 * One step's inputs, for all sequences in it: the only batch type of the engine. The arrays live in backend-visible buffers that are
 * reused by every step. Position (what rope sees) and slot (where K and V are stored) are separate, so that draft trees and evicted
 * blocks fit in later without another type.
 */
import type { Backend } from "../backend/backend.js";
import type { BufferHandle } from "../backend/handles.js";

export interface StepCapacity {
  readonly maxRows: number;
  readonly maxLogitRows: number;
  readonly maxSeats: number;
  /** Blocks of the longest sequence. */
  readonly tableStride: number;
  readonly numGroups: number;
}

/** A backend buffer with the host's view of it. */
export interface HostInts {
  readonly buffer: BufferHandle;
  readonly values: Int32Array;
}

export class StepBatch {
  /** Rows used in this step, of capacity.maxRows. */
  numRows = 0;
  numLogitRows = 0;
  numHiddenTaps = 0;
  /** [maxRows] each */
  readonly tokenIds: HostInts;
  readonly positions: HostInts;
  /** Entries of the past that a row sees, its own included. */
  readonly kvLengths: HostInts;
  /** The row of the block tables in which the sequence of a token has its blocks. */
  readonly sequenceIndex: HostInts;
  /** Per group [maxRows]: slot = block · blockSize + offset. */
  readonly kvSlots: readonly HostInts[];
  /** Per group [maxSeats, tableStride]; a seat's row is written when its sequence gets blocks. */
  readonly blockTables: readonly HostInts[];
  /** [maxLogitRows]: rows whose logits are wanted. */
  readonly logitRows: HostInts;
  /** [maxRows]: rows whose hidden state after the final norm is wanted, each once. */
  readonly hiddenTaps: HostInts;

  constructor(
    readonly capacity: StepCapacity,
    backend: Backend,
  ) {
    const ints = (length: number) => allocateInts(backend, length);
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

export function allocateInts(backend: Backend, length: number): HostInts {
  const buffer = backend.allocate(Math.max(1, length) * 4);
  return { buffer, values: new Int32Array(backend.kernels.view(buffer)) };
}
