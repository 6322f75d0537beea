/** Identifies the tenant of a request by its API key. */
import type { IncomingHttpHeaders } from "node:http";
import { createKeyCheck } from "../core/api-keys.js";
import { keepsApart } from "../core/cache-scope.js";
import type { Caller } from "../gateway/request.js";
import type { Scope } from "../gateway/scope.js";
import type { FleetConfig } from "./config/schema.js";
import type { Secret } from "./config/values.js";

/**
 * Without keys every request is allowed, and all belong to one tenant.
 * @param isIsolated whether each tenant has its own cached prefixes; undefined: yes if there are at least two tenants
 */
export function authorizeBy(
  keys: readonly { readonly tenant: string; readonly key: Secret; readonly scopes?: readonly Scope[] }[],
  isIsolated?: boolean,
): (headers: IncomingHttpHeaders) => Caller {
  const check = createKeyCheck(keys.map(({ key }) => key.reveal()));
  const callers = new Map<string, Caller>();
  const scopes = new Map<string, string>();
  const isApart = keepsApart(
    keys.map(({ tenant }) => tenant),
    isIsolated,
  );
  for (const { tenant, key, scopes: limits = [] } of keys) {
    const digest = check(undefined, key.reveal());
    // Derived from the tenant's first key, so that no client without the key can name the scope.
    if (!scopes.has(tenant)) scopes.set(tenant, digest);
    const limited = limits.length === 0 ? { tenant } : { tenant, scopes: limits };
    callers.set(digest, isApart ? { ...limited, cacheScope: scopes.get(tenant) } : limited);
  }
  return ({ authorization, "x-api-key": apiKey }) =>
    callers.get(check(authorization, typeof apiKey === "string" ? apiKey : undefined)) ?? { tenant: "" };
}

/** Whether each tenant of a configuration has its own cached prefixes. */
export function tenantsApart({ apiKeys, isolateApiKeys }: Pick<FleetConfig, "apiKeys" | "isolateApiKeys">): boolean {
  return keepsApart(
    apiKeys.map(({ tenant }) => tenant),
    isolateApiKeys,
  );
}
