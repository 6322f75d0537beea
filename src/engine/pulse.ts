/**
 * The engine thread's pulse, in shared memory, where the main thread sees it without a message. A thread that has work
 * and has not turned its loop for longer than its longest step is stuck: on a dead disk, in a lock, in an endless loop.
 */

/** Delay that a busy machine may add to any step. */
export const PATIENCE_MS = 30_000;
/** Longest step where step costs are not measured: a very long first prompt. */
const UNKNOWN_STEP_MS = 600_000;
/** Margins: a long context makes a step slower than predicted, a growing one slower than any step before. */
const PREDICTED_FACTOR = 10;
const SEEN_FACTOR = 20;

const nowNs = (): bigint => process.hrtime.bigint();
const NS_PER_MS = 1_000_000n;

/**
 * Words of the shared memory: the time of the last turn in nanoseconds, and the longest allowed step in milliseconds.
 */
const TURNED_AT = 0;
const MAY_TAKE = 1;

/** Written by the engine's thread. */
export class Pulse {
  readonly #words: BigInt64Array;
  #slowestMs = 0;

  constructor(memory: SharedArrayBuffer) {
    this.#words = new BigInt64Array(memory);
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT);
  }

  /** Marks the start of a turn. @param longestMs predicted time of the largest step; undefined: not measured */
  turn(longestMs: number | undefined): void {
    const predictedMs = longestMs === undefined ? UNKNOWN_STEP_MS : PREDICTED_FACTOR * longestMs;
    // A process that was suspended for minutes looks like a slow step: the cap keeps it from hiding a stuck step for
    // hours.
    const mayTakeMs = Math.max(predictedMs, Math.min(SEEN_FACTOR * this.#slowestMs, UNKNOWN_STEP_MS));
    Atomics.store(this.#words, MAY_TAKE, BigInt(Math.ceil(mayTakeMs)));
    Atomics.store(this.#words, TURNED_AT, nowNs());
  }

  /** Marks the end of a step. */
  stepped(): void {
    const turnedAt = Atomics.load(this.#words, TURNED_AT);
    this.#slowestMs = Math.max(this.#slowestMs, Number((nowNs() - turnedAt) / NS_PER_MS));
  }
}

/** Read by the main thread. */
export class PulseReader {
  readonly #words: BigInt64Array;
  #awaitedSince: bigint | undefined;

  constructor(
    memory: SharedArrayBuffer,
    private readonly patienceMs: number,
  ) {
    this.#words = new BigInt64Array(memory);
  }

  /** Whether the thread has work. An idle loop stands still and is not stuck. */
  set isAwaited(isAwaited: boolean) {
    if (!isAwaited) this.#awaitedSince = undefined;
    else this.#awaitedSince ??= nowNs();
  }

  /** Milliseconds since the last turn, if the thread has work and that is longer than a step may take; else 0. */
  stalledMs(): number {
    if (this.#awaitedSince === undefined) return 0;
    const turnedAt = Atomics.load(this.#words, TURNED_AT);
    const since = turnedAt > this.#awaitedSince ? turnedAt : this.#awaitedSince;
    const silentMs = Number((nowNs() - since) / NS_PER_MS);
    return silentMs > this.patienceMs + Number(Atomics.load(this.#words, MAY_TAKE)) ? silentMs : 0;
  }
}
