/** Whose request it is: the tenant that the configuration gave its API key to. */
import { createKeyCheck } from "../core/api-keys.js";
import { keepsApart } from "../core/cache-scope.js";
import type { FleetConfig } from "./config/schema.js";
import type { Secret } from "./config/values.js";
import type { Authorize, Caller } from "./proxy/options.js";

/**
 * Without keys everybody may, and all are one tenant.
 * @param isIsolated whether each tenant has cached prefixes of its own; undefined: as soon as there are two
 */
export function authorizeBy(
  keys: readonly { readonly tenant: string; readonly key: Secret }[],
  isIsolated?: boolean,
): Authorize {
  const check = createKeyCheck(keys.map(({ key }) => key.reveal()));
  const callers = new Map<string, Caller>();
  const scopes = new Map<string, string>();
  const isApart = keepsApart(
    keys.map(({ tenant }) => tenant),
    isIsolated,
  );
  for (const { tenant, key } of keys) {
    const digest = check(undefined, key.reveal());
    // Made of the tenant's first key, so that nobody without it can name the scope.
    if (!scopes.has(tenant)) scopes.set(tenant, digest);
    callers.set(digest, isApart ? { tenant, cacheScope: scopes.get(tenant) } : { tenant });
  }
  return ({ authorization, "x-api-key": apiKey }) =>
    callers.get(check(authorization, typeof apiKey === "string" ? apiKey : undefined)) ?? { tenant: "" };
}

/** Whether each tenant of a configuration has cached prefixes of its own. */
export function tenantsApart({ apiKeys, isolateApiKeys }: Pick<FleetConfig, "apiKeys" | "isolateApiKeys">): boolean {
  return keepsApart(
    apiKeys.map(({ tenant }) => tenant),
    isolateApiKeys,
  );
}
