/**
 * Things to do at absolute times, to a few microseconds. Node's timers count whole milliseconds and fire late, so the last stretch is waited for
 * by turning the event loop, which serves sockets meanwhile. Lateness never adds up: every time is absolute.
 */
import type { Clock } from "./clock.js";

const SPIN_MS = 2;

interface Entry {
  readonly dueMs: number;
  readonly run: () => void;
}

export class Agenda {
  /** By due time. */
  readonly #entries: Entry[] = [];
  #isSpinning = false;
  #timer: NodeJS.Timeout | undefined;
  #timerDueMs = Number.POSITIVE_INFINITY;

  /** @param spinMs from so long before a thing is due the loop turns instead of sleeping; 0 leaves the core to others, and things are up to two milliseconds late */
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
