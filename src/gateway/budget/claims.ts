/** Turns a request into claims on each of its scopes, as numbers that every store can count. */
import type { BudgetUnit, BudgetWindow, ScopeKind, ScopeLimits } from "../scope.js";

/** A scope with limits. A model is one too: for all requests to it. */
export interface LimitedScope {
  readonly kind: ScopeKind | "model";
  readonly id: string;
  readonly limits: ScopeLimits;
}

/**
 * Most nano-dollars or tokens that a budget's meter counts: nine million dollars, a little below what a number holds
 * exactly. A budget above it holds as this one.
 */
export const MAX_AMOUNT = 9_000_000_000_000_000;

interface Claim {
  /** Names the meter; unique to the scope and to the counted unit. */
  readonly key: string;
  readonly scope: LimitedScope;
}

export interface BudgetClaim extends Claim {
  readonly unit: BudgetUnit;
  readonly window: BudgetWindow;
  /** MAX_AMOUNT: only a soft limit is set. */
  readonly hard: number;
  readonly soft: number | undefined;
}

/** Requests or tokens in a minute, in a bucket that refills evenly; or requests at a time. */
export interface CountClaim extends Claim {
  readonly limit: number;
}

export interface Claims {
  readonly budgets: readonly BudgetClaim[];
  readonly requests: readonly CountClaim[];
  readonly tokens: readonly CountClaim[];
  readonly concurrent: readonly CountClaim[];
}

/** In place of claims that a request does not make: one shared list, since lists are compared by identity. */
export const NO_CLAIMS: readonly never[] = [];

/** @param scopes from the widest to the narrowest */
export function claimsOf(scopes: readonly LimitedScope[]): Claims {
  const budgets: BudgetClaim[] = [];
  const requests: CountClaim[] = [];
  const tokens: CountClaim[] = [];
  const concurrent: CountClaim[] = [];
  for (const scope of scopes) {
    const { kind, id, limits } = scope;
    const name = `${kind}/${id}`;
    for (const { unit, window, hard, soft } of limits.budgets) {
      if (hard === undefined && soft === undefined) continue;
      budgets.push({
        key: `${name}/${window}${unit === "tokens" ? OF_TOKENS : ""}`,
        scope,
        unit,
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
  return { budgets, requests, tokens, concurrent };
}

export function isEmpty({ budgets, requests, tokens, concurrent }: Claims): boolean {
  return budgets.length + requests.length + tokens.length + concurrent.length === 0;
}

/** Nano-dollars or tokens as a number that is exact. */
export function amountOf(amount: bigint | undefined): number {
  if (amount === undefined || amount > BigInt(MAX_AMOUNT)) return MAX_AMOUNT;
  return amount < 0n ? 0 : Number(amount);
}

/** Follows the window in the keys of meters that count tokens. */
const OF_TOKENS = "-tokens";

/** The unit that a budget's meter counts, from its key. */
export const unitOfKey = (key: string): BudgetUnit => (key.endsWith(OF_TOKENS) ? "tokens" : "money");

/** The window that a budget's meter counts, from its key. */
export function windowOfKey(key: string): BudgetWindow {
  const end = unitOfKey(key) === "tokens" ? -OF_TOKENS.length : undefined;
  return key.slice(key.lastIndexOf("/") + 1, end) as BudgetWindow;
}
