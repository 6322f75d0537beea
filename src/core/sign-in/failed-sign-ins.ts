/** Slows the guessing of keys: an address that failed often waits. */
import { MillraceError } from "../errors.js";

const MAX_FAILURES = 10;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;

export class FailedSignIns {
  readonly #byAddress = new Map<string, { count: number; readonly untilMs: number }>();

  constructor(private readonly now: () => number = Date.now) {}

  /** Throws rate_limit_exceeded, whatever the key, so that the answer does not tell whether it was right. */
  assertFew(address: string): void {
    const failures = this.#byAddress.get(address);
    if (failures === undefined || failures.count < MAX_FAILURES) return;
    const leftMs = failures.untilMs - this.now();
    if (leftMs <= 0) return;
    throw new MillraceError(
      "rate_limit_exceeded",
      `expected at most ${MAX_FAILURES} failed sign-ins a minute from one address, got more`,
      { retryAfterSeconds: Math.ceil(leftMs / 1000) },
    );
  }

  add(address: string): void {
    const failures = this.#byAddress.get(address);
    if (failures !== undefined && this.now() < failures.untilMs) {
      failures.count++;
      return;
    }
    this.#byAddress.delete(address);
    this.#byAddress.set(address, { count: 1, untilMs: this.now() + WINDOW_MS });
    for (const oldest of this.#byAddress.keys()) {
      if (this.#byAddress.size <= MAX_ADDRESSES) break;
      this.#byAddress.delete(oldest);
    }
  }
}
