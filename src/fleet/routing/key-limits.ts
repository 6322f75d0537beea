/**
 * The remaining limits of one provider key, so that requests that the provider would refuse are not sent. The
 * provider's
 * counts are as old as its answer: requests sent since then are subtracted.
 */
import type { Allowance, RateLimits } from "../../gateway/dialects/wire/rate-limits.js";

/** Requests and tokens sent with the key before a request. */
interface Sent {
  readonly requests: number;
  readonly tokens: number;
}

interface Left {
  amount: number;
  readonly resetAtMs: number;
}

/** First and longest pause after a refusal without a time; each further refusal doubles it. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

export class KeyLimits {
  #requests: Left | undefined;
  #tokens: Left | undefined;
  #pausedUntilMs = 0;
  #numRefusals = 0;
  #sent: Sent = { requests: 0, tokens: 0 };

  /** Counts a request that is about to be sent. @returns the counts so far, to pass to `learn` */
  send(tokens: number): Sent {
    if (this.#requests !== undefined) this.#requests.amount -= 1;
    if (this.#tokens !== undefined) this.#tokens.amount -= tokens;
    this.#sent = { requests: this.#sent.requests + 1, tokens: this.#sent.tokens + tokens };
    return this.#sent;
  }

  /** Time at which a request of so many tokens may be sent; `nowMs` or earlier: at once. */
  opensAtMs(tokens: number, nowMs: number): number {
    const opens = [this.#pausedUntilMs];
    for (const [left, needed] of [
      [this.#requests, 1],
      [this.#tokens, tokens],
    ] as const) {
      // The provider's counts are void after their reset.
      if (left !== undefined && left.resetAtMs > nowMs && left.amount < needed) opens.push(left.resetAtMs);
    }
    return Math.max(...opens);
  }

  /** @param sent the result of `send` for the answered request */
  learn({ requests, tokens, retryAfterMs }: RateLimits, sent: Sent, isRefusal: boolean, nowMs: number): void {
    this.#requests = leftOf(requests, this.#sent.requests - sent.requests, nowMs) ?? this.#requests;
    this.#tokens = leftOf(tokens, this.#sent.tokens - sent.tokens, nowMs) ?? this.#tokens;
    if (!isRefusal) this.#numRefusals = 0;
    else this.pause(retryAfterMs ?? this.#backoff(requests, tokens), nowMs);
  }

  pause(ms: number, nowMs: number): void {
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + ms);
  }

  /** A refusal that names the exhausted limit needs no pause beyond its reset. */
  #backoff(requests: Allowance | undefined, tokens: Allowance | undefined): number {
    if (requests?.remaining === 0 || tokens?.remaining === 0) return 0;
    return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#numRefusals++, 10));
  }
}

function leftOf(allowance: Allowance | undefined, sentSince: number, nowMs: number): Left | undefined {
  if (allowance === undefined) return undefined;
  return { amount: allowance.remaining - sentSince, resetAtMs: nowMs + allowance.resetMs };
}
