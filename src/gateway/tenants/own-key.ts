/** A caller's own key, limits and use: GET /v1/key. */
import { formatDollars } from "../money.js";
import type { Caller } from "../request.js";
import type { BudgetWindow, Scope, ScopeLimits } from "../scope.js";
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
  readonly window: BudgetWindow;
  /** In nano-dollars, settled. */
  readonly spent: bigint;
  /** In nano-dollars, of requests that run. */
  readonly reserved: bigint;
  /** When the window ends, in milliseconds since 1970. */
  readonly endsMs: number;
}

/** Implemented by whatever counts. May reject where its store is down. */
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
  const useOf = new Map(used?.budgets.map((each) => [each.window, each]));
  return {
    kind,
    id,
    limits: {
      requests_per_minute: limits.requestsPerMinute ?? null,
      tokens_per_minute: limits.tokensPerMinute ?? null,
      concurrent_requests: limits.concurrentRequests ?? null,
    },
    used: used === undefined ? null : usedRates(limits, used),
    budgets: Object.fromEntries(
      limits.budgets.map(({ window, hard, soft }) => [
        window,
        { hard: amount(hard), soft: amount(soft), ...shownUse(useOf.get(window)) },
      ]),
    ),
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
 * A scope's use for the administrator: a figure for each limit, null where there is no limit, and the money of each
 * budget.
 */
export function scopeUse(limits: ScopeLimits, used: ScopeUsage): object {
  return {
    ...usedRates(limits, used),
    budgets: Object.fromEntries(used.budgets.map((use) => [use.window, shownUse(use)])),
  };
}

function shownUse(use: BudgetUsage | undefined): object {
  if (use === undefined) return {};
  return { spent: amount(use.spent), reserved: amount(use.reserved), ends_at: Math.floor(use.endsMs / 1000) };
}

const amount = (nanoDollars: bigint | undefined): string | null =>
  nanoDollars === undefined ? null : formatDollars(nanoDollars);
