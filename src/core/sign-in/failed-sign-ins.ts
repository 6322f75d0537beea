/**
 * Makes an address with many failures wait. A valid key always signs in, since all clients behind a proxy share one
 * address. Keys in headers can be tried any number of times, so only their length protects them.
 */
import { MillraceError } from "../errors.js";

const MAX_FAILURES = 10;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;

export class FailedSignIns {
  readonly #byAddress = new Map<string, { count: number; readonly untilMs: number }>();

  constructor(private readonly now: () => number = Date.now) {}

  /** Counts a failure. @returns the error to answer after too many failures; undefined: the failure's own error */
  add(address: string): MillraceError | undefined {
    const failures = this.#byAddress.get(address);
    if (failures === undefined || this.now() >= failures.untilMs) {
      this.#begin(address);
      return undefined;
    }
    failures.count++;
    if (failures.count <= MAX_FAILURES) return undefined;
    return new MillraceError(
      "rate_limit_exceeded",
      `expected a valid key after ${MAX_FAILURES} failed sign-ins in a minute from one address, got an unknown one`,
      { retryAfterSeconds: Math.ceil((failures.untilMs - this.now()) / 1000), hint: "a valid key signs in at once" },
    );
  }

  #begin(address: string): void {
    this.#byAddress.delete(address);
    this.#byAddress.set(address, { count: 1, untilMs: this.now() + WINDOW_MS });
    for (const oldest of this.#byAddress.keys()) {
      if (this.#byAddress.size <= MAX_ADDRESSES) break;
      this.#byAddress.delete(oldest);
    }
  }
}
