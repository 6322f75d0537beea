/** Turns a request into claims on each of its scopes, as numbers that every store can count. */
import type { BudgetWindow, ScopeKind, ScopeLimits } from "../scope.js";

/** A model is a scope too: of all requests for it. */
export interface LimitedScope {
  readonly kind: ScopeKind | "model";
  readonly id: string;
  readonly limits: ScopeLimits;
}

/**
 * Most nano-dollars that a meter counts: nine million dollars, a little below what a number holds exactly. A budget
 * above it holds as this one.
 */
export const MAX_MONEY = 9_000_000_000_000_000;

interface Claim {
  /** Names the meter; unique to the scope and to the counted unit. */
  readonly key: string;
  readonly scope: LimitedScope;
}

export interface MoneyClaim extends Claim {
  readonly window: BudgetWindow;
  /** Nano-dollars; MAX_MONEY: only a soft limit is set. */
  readonly hard: number;
  readonly soft: number | undefined;
}

/** Requests or tokens in a minute, in a bucket that refills evenly; or requests at a time. */
export interface CountClaim extends Claim {
  readonly limit: number;
}

export interface Claims {
  readonly money: readonly MoneyClaim[];
  readonly requests: readonly CountClaim[];
  readonly tokens: readonly CountClaim[];
  readonly concurrent: readonly CountClaim[];
}

/** In place of claims that a request does not make: one list for all, since others are known by their lists. */
export const NO_CLAIMS: readonly never[] = [];

/** @param scopes from the widest to the narrowest */
export function claimsOf(scopes: readonly LimitedScope[]): Claims {
  const money: MoneyClaim[] = [];
  const requests: CountClaim[] = [];
  const tokens: CountClaim[] = [];
  const concurrent: CountClaim[] = [];
  for (const scope of scopes) {
    const { kind, id, limits } = scope;
    const name = `${kind}/${id}`;
    for (const { window, hard, soft } of limits.budgets) {
      if (hard === undefined && soft === undefined) continue;
      money.push({
        key: `${name}/${window}`,
        scope,
        window,
        hard: amountOf(hard),
        soft: soft === undefined ? soft : amountOf(soft),
      });
    }
    const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
    if (requestsPerMinute !== undefined) requests.push({ key: `${name}/requests`, scope, limit: requestsPerMinute });
    if (tokensPerMinute !== undefined) tokens.push({ key: `${name}/tokens`, scope, limit: tokensPerMinute });
    if (concurrentRequests !== undefined) concurrent.push({ key: `${name}/open`, scope, limit: concurrentRequests });
  }
  return { money, requests, tokens, concurrent };
}

export function isEmpty({ money, requests, tokens, concurrent }: Claims): boolean {
  return money.length + requests.length + tokens.length + concurrent.length === 0;
}

/** Nano-dollars as a number that is exact. */
export function amountOf(nanoDollars: bigint | undefined): number {
  if (nanoDollars === undefined || nanoDollars > BigInt(MAX_MONEY)) return MAX_MONEY;
  return nanoDollars < 0n ? 0 : Number(nanoDollars);
}

/** The window that a money meter counts, from its key. */
export function windowOfKey(key: string): BudgetWindow {
  if (key.endsWith("/day")) return "day";
  return key.endsWith("/hour") ? "hour" : "month";
}
