/**
 * Memory of recurrent layers: for each seat a slot with the state after the tokens that its sequence has computed, then
 * slots of states at the ends of cached prefixes. The rows of a step name the slots that they continue and leave
 * (`StepBatch`), so nothing here is cleared or moved.
 */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import { MillraceError } from "../../core/errors.js";
import { formatBytes } from "../../core/quantities.js";
import type { ServableModel } from "../../model/description/servable.js";
import { stateBytes, stateValues } from "../../model/description/sizes.js";

/** One layer's slots, as `causalConv` and `deltaRule` lay them out. */
export interface LayerState {
  readonly past: BufferHandle;
  readonly recurrent: BufferHandle;
  readonly numSlots: number;
}

/** Shares of the memory for states that those of seats, and those at the ends of prefixes, may take. */
const SEATS_SHARE = 1 / 2;
const SNAPSHOT_SHARE = 1 / 4;
const MOST_SNAPSHOTS = 64;

/**
 * Memory for states: what keys and values leave, or half of all where these have no memory of their own yet.
 * @param freeBytes beside the weights @param kvBytes that the user has set, or undefined
 */
export const memoryForStates = (freeBytes: number, kvBytes: number | undefined): number =>
  Math.max(0, kvBytes === undefined ? freeBytes / 2 : freeBytes - kvBytes);

/**
 * How many sequences can run at once: as many as asked for, or as have room for their states.
 * @param numBytes as `memoryForStates` has them
 * @throws invalid_option where there is no room for one
 */
export function seatsWithStates(config: ServableModel, maxNumSeqs: number, numBytes: number): number {
  const ofOne = stateBytes(config);
  if (ofOne === 0) return maxNumSeqs;
  if (ofOne > numBytes) {
    throw new MillraceError(
      "invalid_option",
      `expected memory for the recurrent state of one sequence (${formatBytes(ofOne)}), got ${formatBytes(numBytes)}`,
      { hint: "Lower --kv-cache-memory-bytes if it is set, or take a smaller model." },
    );
  }
  return Math.max(1, Math.min(maxNumSeqs, Math.floor((numBytes * SEATS_SHARE) / ofOne)));
}

/** How many states at the ends of cached prefixes are kept. */
export function snapshotsWithin(config: ServableModel, numBytes: number): number {
  const ofOne = stateBytes(config);
  return ofOne === 0 ? 0 : Math.min(MOST_SNAPSHOTS, Math.floor((numBytes * SNAPSHOT_SHARE) / ofOne));
}

export class RecurrentStates {
  readonly #layers: readonly (LayerState | undefined)[];

  constructor({ layers }: ServableModel, numSlots: number, backend: Backend) {
    this.#layers = layers.map(({ mixer }) => {
      if (mixer.kind !== "delta") return undefined;
      const { recurrent, past } = stateValues(mixer);
      const floats = (count: number) => backend.allocate(numSlots * count * 4);
      return { past: floats(past), recurrent: floats(recurrent), numSlots };
    });
  }

  layer(index: number): LayerState {
    return this.#layers[index]!;
  }
}
