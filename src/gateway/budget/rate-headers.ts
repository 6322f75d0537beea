/** Reports the rest of the limits on requests and tokens, in the headers of the client's API. */
import { ANTHROPIC, type ProxyDialect } from "../api/dialect.js";
import type { Claims, CountClaim } from "./claims.js";
import { type Levels, UNITS } from "./store.js";

interface Standing {
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds until the bucket is full. */
  readonly resetMs: number;
}

/** @param nowMs milliseconds since 1970 */
export function rateHeaders(
  claims: Claims,
  levels: Levels,
  dialect: ProxyDialect,
  nowMs: number,
): Record<string, string> {
  const headers: Record<string, string> = {};
  const add = dialect === ANTHROPIC ? anthropic : openAi;
  const requests = tightest(claims.requests, levels.requests);
  const tokens = tightest(claims.tokens, levels.tokens);
  if (requests !== undefined) add(headers, "requests", requests, nowMs);
  if (tokens !== undefined) add(headers, "tokens", tokens, nowMs);
  return headers;
}

/** If several scopes are counted, the one with the least left is reported. */
function tightest(claims: readonly CountClaim[], levels: readonly number[]): Standing | undefined {
  let least: Standing | undefined;
  for (const [i, { limit }] of claims.entries()) {
    const used = levels[i] ?? 0;
    const remaining = Math.max(0, Math.floor((limit * UNITS - used) / UNITS));
    if (least !== undefined && least.remaining <= remaining) continue;
    least = { limit, remaining, resetMs: limit === 0 ? UNITS : Math.ceil(used / limit) };
  }
  return least;
}

type Add = (headers: Record<string, string>, name: string, standing: Standing, nowMs: number) => void;

const openAi: Add = (headers, name, { limit, remaining, resetMs }) => {
  headers[`x-ratelimit-limit-${name}`] = String(limit);
  headers[`x-ratelimit-remaining-${name}`] = String(remaining);
  headers[`x-ratelimit-reset-${name}`] = durationText(resetMs);
};

const anthropic: Add = (headers, name, { limit, remaining, resetMs }, nowMs) => {
  headers[`anthropic-ratelimit-${name}-limit`] = String(limit);
  headers[`anthropic-ratelimit-${name}-remaining`] = String(remaining);
  headers[`anthropic-ratelimit-${name}-reset`] = new Date(nowMs + resetMs).toISOString().replace(/\.\d+Z$/, "Z");
};

/** OpenAI's form. @example durationText(360_000) // "6m0s" */
export function durationText(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const seconds = Math.ceil(ms / 1000);
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return `${hours > 0 ? `${hours}h` : ""}${seconds >= 60 ? `${minutes}m` : ""}${rest}s`;
}
