/** Shows a caller its own key, limits and use: GET /v1/key. */
import { formatDollars } from "../money.js";
import type { Caller } from "../request.js";
import type { Budget, BudgetUnit, BudgetWindow, Scope, ScopeLimits } from "../scope.js";
import { shownScope } from "./records.js";
import type { TenantStore } from "./tenant-store.js";

export const OWN_KEY_PATH = "/v1/key";

/** Use of a scope. */
export interface ScopeUsage {
  readonly requestsThisMinute: number;
  readonly tokensThisMinute: number;
  readonly concurrentRequests: number;
  readonly budgets: readonly BudgetUsage[];
}

interface BudgetUsage {
  readonly unit: BudgetUnit;
  readonly window: BudgetWindow;
  /** Settled amount. */
  readonly spent: bigint;
  /** Amount reserved by running requests. */
  readonly reserved: bigint;
  /** When the window ends, in milliseconds since 1970. Undefined: never. */
  readonly endsMs: number | undefined;
}

/** The use of a scope, from the policy that counts it. May reject while its store is down. */
export type UsageOf = (scope: Scope) => ScopeUsage | Promise<ScopeUsage>;

/** @param usageOf undefined: nothing is counted, and only the limits are shown */
export async function ownKey(
  caller: Caller,
  store: TenantStore | undefined,
  usageOf: UsageOf | undefined,
): Promise<object> {
  const { keyId, tenant, scopes = [] } = caller;
  const shownScopes = await Promise.all(scopes.map(async (scope) => shownWithUse(scope, await usageOf?.(scope))));
  const about =
    keyId === undefined || store === undefined ? { object: "key", id: null } : shownScope(store.find("key", keyId));
  return { ...about, tenant, scopes: shownScopes };
}

/** A scope without a limit is not counted, and its use is null. */
function shownWithUse({ kind, id, limits }: Scope, used: ScopeUsage | undefined): object {
  const shown = ({ unit, window, hard, soft }: Budget): object => {
    const use = used?.budgets.find((each) => each.unit === unit && each.window === window);
    return { hard: amount(unit, hard), soft: amount(unit, soft), ...(use === undefined ? {} : shownUse(use)) };
  };
  return {
    kind,
    id,
    limits: {
      requests_per_minute: limits.requestsPerMinute ?? null,
      tokens_per_minute: limits.tokensPerMinute ?? null,
      concurrent_requests: limits.concurrentRequests ?? null,
    },
    used: used === undefined ? null : usedRates(limits, used),
    ...byUnit(limits.budgets, shown),
  };
}

function usedRates(limits: ScopeLimits, used: ScopeUsage): object {
  return {
    requests_this_minute: limits.requestsPerMinute === undefined ? null : used.requestsThisMinute,
    tokens_this_minute: limits.tokensPerMinute === undefined ? null : used.tokensThisMinute,
    concurrent_requests: limits.concurrentRequests === undefined ? null : used.concurrentRequests,
  };
}

/**
 * A scope's use for the administrator: a figure for each limit (null without a limit), and the amounts of each budget.
 */
export function scopeUse(limits: ScopeLimits, used: ScopeUsage): object {
  return {
    ...usedRates(limits, used),
    ...byUnit(used.budgets, shownUse),
  };
}

/** Budgets of money, and after them those of tokens, each by its window. */
function byUnit<Each extends Pick<Budget, "unit" | "window">>(all: readonly Each[], shown: (each: Each) => object) {
  const of = (unit: BudgetUnit) => all.filter((each) => each.unit === unit).map((each) => [each.window, shown(each)]);
  return { budgets: Object.fromEntries(of("money")), token_budgets: Object.fromEntries(of("tokens")) };
}

function shownUse({ unit, spent, reserved, endsMs }: BudgetUsage): object {
  const endsAt = endsMs === undefined ? null : Math.floor(endsMs / 1000);
  return { spent: amount(unit, spent), reserved: amount(unit, reserved), ends_at: endsAt };
}

/** Dollars as text, tokens as a number. */
function amount(unit: BudgetUnit, value: bigint | undefined): string | number | null {
  if (value === undefined) return null;
  return unit === "money" ? formatDollars(value) : Number(value);
}
