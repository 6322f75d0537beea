/**
 * Runs entries at absolute times, exact to a few microseconds. Node's timers count whole milliseconds and fire late, so
 * shortly before an entry the event loop spins, which still serves sockets. Delays never add up, because every time is
 * absolute.
 */
import type { Clock } from "./clock.js";

const SPIN_MS = 2;

interface Entry {
  readonly dueMs: number;
  readonly run: () => void;
}

export class Agenda {
  /** Ordered by due time. */
  readonly #entries: Entry[] = [];
  #isSpinning = false;
  #timer: NodeJS.Timeout | undefined;
  #timerDueMs = Number.POSITIVE_INFINITY;

  /**
   * @param spinMs how long before an entry the event loop spins instead of sleeping; with 0, entries are up to two
   * milliseconds late
   */
  constructor(
    private readonly now: Clock,
    private readonly spinMs = SPIN_MS,
  ) {}

  at(dueMs: number, run: () => void): void {
    let place = this.#entries.length;
    while (place > 0 && this.#entries[place - 1]!.dueMs > dueMs) place--;
    this.#entries.splice(place, 0, { dueMs, run });
    if (place === 0) this.#wait();
  }

  until(dueMs: number): Promise<void> {
    return new Promise((resolve) => this.at(dueMs, resolve));
  }

  #wait(): void {
    const first = this.#entries[0];
    if (first === undefined || this.#isSpinning) return;
    const leftMs = first.dueMs - this.now();
    if (leftMs <= this.spinMs) {
      this.#isSpinning = true;
      setImmediate(this.#turn);
    } else if (first.dueMs < this.#timerDueMs) {
      clearTimeout(this.#timer);
      this.#timerDueMs = first.dueMs;
      this.#timer = setTimeout(() => {
        this.#timerDueMs = Number.POSITIVE_INFINITY;
        this.#wait();
      }, leftMs - this.spinMs);
    }
  }

  readonly #turn = (): void => {
    this.#isSpinning = false;
    const nowMs = this.now();
    let numDue = 0;
    while (numDue < this.#entries.length && this.#entries[numDue]!.dueMs <= nowMs) numDue++;
    for (const { run } of this.#entries.splice(0, numDue)) run();
    this.#wait();
  };
}
