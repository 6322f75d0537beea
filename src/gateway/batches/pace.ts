/**
 * Decides how many lines of batches may be under way at a model: as many as there are seats that no other request
 * wants.
 */

/** The instances of a model now. The counts are sequences of all requests, including those of batches. */
export interface ModelLoad {
  /** Ready instances. */
  readonly numReady: number;
  /** Seats of the ready instances; undefined: not reported. */
  readonly seats: number | undefined;
  readonly numInFlight: number;
  readonly numWaiting: number;
  /**
   * Every ready instance computes lines of batches only in steps without other requests, so that lines delay nobody.
   */
  readonly yieldsToOthers: boolean;
}

interface PaceAdvice {
  /** Lines that may be under way; those beyond it are not stopped. */
  readonly most: number;
  /** Lines to stop now, since other requests wait for their seats. They run again later. */
  readonly toStop: number;
}

/** Seats assumed for each instance that reports none: every engine can compute as many at once. */
const UNKNOWN_SEATS = 8;
/** Share of the seats that stays free for the next requests, at least one. */
const HEADROOM = 1 / 8;
/**
 * Share of the seats for lines beside other requests, if the engine does not put requests first: each line makes its
 * steps longer.
 */
const SHARE_BESIDE = 1 / 8;
/** Time in which the remembered peak of other requests falls to a third. */
const PEAK_MS = 10_000;

export class Pace {
  #peak = 0;
  #lastMs = 0;

  /**
   * @param numLines lines of batches that are under way
   * @param nowMs never goes back
   */
  advise(
    { numReady, seats, numInFlight, numWaiting, yieldsToOthers }: ModelLoad,
    numLines: number,
    nowMs: number,
  ): PaceAdvice {
    const numOthers = Math.max(0, numInFlight + numWaiting - numLines);
    const kept = this.#peak * Math.exp(-(nowMs - this.#lastMs) / PEAK_MS);
    this.#peak = Math.max(numOthers, kept);
    this.#lastMs = nowMs;
    // One line makes a model load on demand, and shows whether a failed one is back.
    if (numReady === 0) return { most: 1, toStop: 0 };
    const all = seats ?? UNKNOWN_SEATS * numReady;
    // With more requests than seats, all waiting requests count as others': lines go last.
    const numShort = Math.min(numLines, numWaiting, Math.max(0, numOthers + numLines - all));
    if (numShort > 0) return { most: 0, toStop: numShort };
    const headroom = all === 1 ? 0 : Math.max(1, Math.ceil(all * HEADROOM));
    const free = all - Math.ceil(this.#peak - 0.5) - headroom;
    const isAlone = numOthers === 0;
    // Running lines stand still beside other requests, and cost nothing. New lines do cost: their texts are read,
    // rendered and tokenized at once.
    const share = yieldsToOthers ? Math.max(0, numReady - numOthers) / numReady : SHARE_BESIDE;
    const beside = isAlone ? free : Math.min(free, Math.floor(all * share));
    return { most: Math.max(isAlone ? 1 : 0, beside), toStop: 0 };
  }
}
