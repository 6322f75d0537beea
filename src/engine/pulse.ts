/**
 * The engine thread's pulse, in memory that both threads see: messages say the same only once somebody has read them. A thread that should be working
 * and has not turned its loop for longer than its longest step is stuck: in a dead disk, in a lock, in a loop.
 */

/** What may hold up a step on a busy machine, whatever the model. */
export const PATIENCE_MS = 30_000;
/** Where the cost of steps is not followed: the longest first prompt that anybody waits for. */
const UNKNOWN_STEP_MS = 600_000;
/** A step takes longer than predicted where contexts are long, and than any before where they grow. */
const PREDICTED_FACTOR = 10;
const SEEN_FACTOR = 20;

const nowNs = (): bigint => process.hrtime.bigint();
const NS_PER_MS = 1_000_000n;

/** Words: when the loop turned last, and for how many milliseconds it may be away. */
const TURNED_AT = 0;
const MAY_TAKE = 1;

/** The engine thread's side. */
export class Pulse {
  readonly #words: BigInt64Array;
  #slowestMs = 0;

  constructor(memory: SharedArrayBuffer) {
    this.#words = new BigInt64Array(memory);
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT);
  }

  /** @param longestMs what a step with as many rows as there can be is predicted to take; undefined: nobody knows */
  turn(longestMs: number | undefined): void {
    const predictedMs = longestMs === undefined ? UNKNOWN_STEP_MS : PREDICTED_FACTOR * longestMs;
    // A process that was stopped for minutes looks like a slow step, and must not hide a stuck one for hours.
    const mayTakeMs = Math.max(predictedMs, Math.min(SEEN_FACTOR * this.#slowestMs, UNKNOWN_STEP_MS));
    Atomics.store(this.#words, MAY_TAKE, BigInt(Math.ceil(mayTakeMs)));
    Atomics.store(this.#words, TURNED_AT, nowNs());
  }

  /** After a step. */
  stepped(): void {
    const turnedAt = Atomics.load(this.#words, TURNED_AT);
    this.#slowestMs = Math.max(this.#slowestMs, Number((nowNs() - turnedAt) / NS_PER_MS));
  }
}

/** The main thread's side. */
export class PulseReader {
  readonly #words: BigInt64Array;
  #awaitedSince: bigint | undefined;

  constructor(
    memory: SharedArrayBuffer,
    private readonly patienceMs: number,
  ) {
    this.#words = new BigInt64Array(memory);
  }

  /** Whether the thread has work: a loop without any stands still. */
  set isAwaited(isAwaited: boolean) {
    if (!isAwaited) this.#awaitedSince = undefined;
    else this.#awaitedSince ??= nowNs();
  }

  /** How long the loop has stood still though it has work; 0 where that is no longer than a step may take. */
  stalledMs(): number {
    if (this.#awaitedSince === undefined) return 0;
    const turnedAt = Atomics.load(this.#words, TURNED_AT);
    const since = turnedAt > this.#awaitedSince ? turnedAt : this.#awaitedSince;
    const silentMs = Number((nowNs() - since) / NS_PER_MS);
    return silentMs > this.patienceMs + Number(Atomics.load(this.#words, MAY_TAKE)) ? silentMs : 0;
  }
}
