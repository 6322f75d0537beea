/** How much memory the embedded engine gives the states of recurrent layers, and how many it keeps in it. */
import { MillraceError } from "../../core/errors.js";
import { formatBytes } from "../../core/quantities.js";
import type { ModelDescription } from "./model-description.js";
import { stateBytes } from "./sizes.js";

type Layered = Pick<ModelDescription, "layers">;

/** Shares of the memory for states that those of seats, at the ends of prefixes, and of drafts may take. */
const SEATS_SHARE = 1 / 2;
const SNAPSHOT_SHARE = 1 / 4;
const DRAFTS_SHARE = 1 / 8;
const MOST_SNAPSHOTS = 64;
/** As many as the rows of a step whose cost is measured: beyond it, nothing says whether a draft pays. */
const MOST_DRAFTED = 31;
/** Most states beside those of sequences. */
export const MOST_OTHER_STATES = MOST_SNAPSHOTS + MOST_DRAFTED;

/**
 * Memory for states: the rest beside keys and values, or half of all where these have no memory of their own yet.
 * @param freeBytes beside the weights @param kvBytes that the user has set, or undefined
 */
export const memoryForStates = (freeBytes: number, kvBytes: number | undefined): number =>
  Math.max(0, kvBytes === undefined ? freeBytes / 2 : freeBytes - kvBytes);

/**
 * How many sequences can run at once: as many as asked for, or as have room for their states.
 * @param numBytes as `memoryForStates` has them
 * @throws invalid_option where there is no room for one
 */
export function seatsWithStates(model: Layered, maxNumSeqs: number, numBytes: number): number {
  const ofOne = stateBytes(model);
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
export const snapshotsWithin = (model: Layered, numBytes: number): number =>
  statesWithin(model, MOST_SNAPSHOTS, numBytes * SNAPSHOT_SHARE);

/** How many drafted tokens of a step leave a state each. @param numWanted of all sequences together */
export const draftStatesWithin = (model: Layered, numWanted: number, numBytes: number): number =>
  statesWithin(model, Math.min(numWanted, MOST_DRAFTED), numBytes * DRAFTS_SHARE);

function statesWithin(model: Layered, most: number, numBytes: number): number {
  const ofOne = stateBytes(model);
  return ofOne === 0 ? 0 : Math.min(most, Math.floor(numBytes / ofOne));
}
