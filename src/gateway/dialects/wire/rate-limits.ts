/** Reads the limits of a provider's key from an answer. All times are relative, since its clock is not ours. */
import type { IncomingHttpHeaders } from "node:http";

/** The rest of one limit, and the time until it is full again. */
export interface Allowance {
  readonly remaining: number;
  readonly resetMs: number;
}

export interface RateLimits {
  readonly requests?: Allowance;
  readonly tokens?: Allowance;
  /** The provider asks for a pause. */
  readonly retryAfterMs?: number;
}

/** Longer pauses are cut to this: a request then tries again. */
const MAX_PAUSE_MS = 24 * 3_600_000;
/** Assumed for a limit without a reset time. */
const DEFAULT_RESET_MS = 60_000;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** OpenAI's 6m0s, 1s, 12ms, 1h2m3.5s. */
const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const PIECE = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;

const clamp = (ms: number): number => Math.min(MAX_PAUSE_MS, Math.max(0, ms));

function headerOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value.length <= 64 ? value.trim() : undefined;
}

function count(text: string | undefined): number | undefined {
  const value = text === undefined || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(value) ? Math.floor(value) : undefined;
}

/** A duration, a number of seconds, a Unix time, or a date. @returns milliseconds from now */
function resetOf(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (DURATION.test(text)) {
    let ms = 0;
    for (const [, value, unit] of text.matchAll(PIECE)) ms += Number(value) * UNITS[unit!]!;
    return clamp(ms);
  }
  const value = Number(text);
  if (Number.isFinite(value)) {
    if (value > 1e12) return clamp(value - nowMs);
    return clamp(value > 1e9 ? value * 1000 - nowMs : value * 1000);
  }
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : clamp(at - nowMs);
}

function allowance(headers: IncomingHttpHeaders, names: readonly (readonly [string, string])[], nowMs: number) {
  let least: Allowance | undefined;
  for (const [remainingName, resetName] of names) {
    const remaining = count(headerOf(headers, remainingName));
    if (remaining === undefined) continue;
    const resetMs = resetOf(headerOf(headers, resetName), nowMs) ?? DEFAULT_RESET_MS;
    if (least === undefined || remaining < least.remaining) least = { remaining: Math.max(0, remaining), resetMs };
  }
  return least;
}

const REQUESTS = [
  ["x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
  ["anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"],
  // OpenRouter and others have one limit, of requests.
  ["x-ratelimit-remaining", "x-ratelimit-reset"],
] as const;
const TOKENS = [
  ["x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
  ["x-ratelimit-remaining-project-tokens", "x-ratelimit-reset-project-tokens"],
  ["anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"],
  ["anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"],
  ["anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"],
] as const;

/** @param nowMs of the wall clock, for answers without a date */
export function rateLimitsOf(headers: IncomingHttpHeaders, nowMs: number): RateLimits {
  // Dates of the provider are compared with its own clock.
  const dated = Date.parse(headerOf(headers, "date") ?? "");
  const theirNow = Number.isNaN(dated) ? nowMs : dated;
  const requests = allowance(headers, REQUESTS, theirNow);
  const tokens = allowance(headers, TOKENS, theirNow);
  const exactMs = count(headerOf(headers, "retry-after-ms"));
  const retryAfterMs = exactMs === undefined ? resetOf(headerOf(headers, "retry-after"), theirNow) : clamp(exactMs);
  return {
    ...(requests === undefined ? {} : { requests }),
    ...(tokens === undefined ? {} : { tokens }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** Google states the pause in the body of its 429. @returns milliseconds; undefined if the body has none */
export function retryDelayOf(body: Buffer): number | undefined {
  const found = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(body.toString("latin1"));
  return found === null ? undefined : clamp(Number(found[1]) * 1000);
}
