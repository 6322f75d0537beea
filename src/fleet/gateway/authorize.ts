/** Identifies the tenant of a request by its API key. */
import type { IncomingHttpHeaders } from "node:http";
import { createKeyCheck, givenKeys, noValidKey } from "../../core/api-keys.js";
import { keepsApart } from "../../core/cache-scope.js";
import type { Secret } from "../../core/config-values.js";
import type { CallerIdentity } from "../../gateway/caller-identity.js";
import type { Caller } from "../../gateway/request.js";
import type { Scope } from "../../gateway/scope.js";
import type { FleetConfig } from "../config/schema.js";

/**
 * Identifies callers by the file's keys. Without keys, every request is allowed and belongs to one tenant.
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
    const holder = `file:${digest}`;
    const limited = limits.length === 0 ? { tenant, holder } : { tenant, holder, scopes: limits };
    callers.set(digest, isApart ? { ...limited, cacheScope: scopes.get(tenant) } : limited);
  }
  return ({ authorization, "x-api-key": apiKey }) =>
    callers.get(check(authorization, typeof apiKey === "string" ? apiKey : undefined)) ?? { tenant: "" };
}

/**
 * Whether each tenant of a configuration has its own cached prefixes. Organisations are tenants whose number may grow.
 */
export function tenantsApart(
  config: Pick<FleetConfig, "apiKeys" | "isolateApiKeys" | "managedKeys" | "oidc">,
): boolean {
  const { apiKeys, isolateApiKeys } = config;
  return keepsApart(
    apiKeys.map(({ tenant }) => tenant),
    isolateApiKeys ?? (hasTenants(config) || undefined),
  );
}

/** Whether other keys or tokens than the file's may be valid. */
export function hasTenants({ managedKeys, oidc }: Pick<FleetConfig, "managedKeys" | "oidc">): boolean {
  return managedKeys || oidc !== undefined;
}

/** Whether clients need a key of the gateway. */
export function needsKeys(config: Pick<FleetConfig, "apiKeys" | "managedKeys" | "oidc">): boolean {
  return config.apiKeys.length > 0 || hasTenants(config);
}

/**
 * Finds the caller of a key or token: a managed key, or a token of the provider. Throws if the text has this source's
 * form but is not valid now.
 */
type CallerSource = (text: string) => Caller | Promise<Caller> | undefined;

export interface CallerSources {
  readonly managed?: CallerSource | undefined;
  readonly tokens?: CallerSource | undefined;
}

/**
 * Tries managed keys first, which are found fastest, then the file's, then tokens. If both headers have keys,
 * Authorization counts.
 */
export function authorizeWith(
  config: Pick<FleetConfig, "apiKeys" | "isolateApiKeys" | "managedKeys" | "oidc">,
  { managed, tokens }: CallerSources,
): (headers: IncomingHttpHeaders) => Caller | Promise<Caller> {
  const isApart = tenantsApart(config);
  const own = authorizeBy(config.apiKeys, isApart);
  if (managed === undefined && tokens === undefined) return own;
  const ofFile = config.apiKeys.length > 0 ? (text: string) => ownCaller(own, text) : undefined;
  const sources = [managed, ofFile, tokens].filter((source) => source !== undefined);
  return ({ authorization, "x-api-key": apiKey }) => {
    const given = givenKeys(authorization, typeof apiKey === "string" ? apiKey : undefined);
    for (const text of given) {
      for (const source of sources) {
        const caller = source(text);
        if (caller !== undefined) return isApart ? caller : shared(caller);
      }
    }
    throw noValidKey(given);
  };
}

/**
 * Finds the callers of the file's keys by their identities; without keys, every client is a caller.
 * @returns undefined if the key is no longer in the file
 */
export function fileCallers(
  config: Pick<FleetConfig, "apiKeys" | "isolateApiKeys" | "managedKeys" | "oidc">,
): (identity: CallerIdentity) => Caller | undefined {
  const own = authorizeBy(config.apiKeys, tenantsApart(config));
  return ({ tenant, scopes = [] }) => {
    if (tenant === "" && !needsKeys(config)) return own({});
    const ids = scopes.join("\n");
    const found = config.apiKeys.find((each) => {
      return each.tenant === tenant && (each.scopes ?? []).map(({ id }) => id).join("\n") === ids;
    });
    return found === undefined ? undefined : own({ "x-api-key": found.key.reveal() });
  };
}

function ownCaller(own: ReturnType<typeof authorizeBy>, text: string): Caller | undefined {
  try {
    return own({ "x-api-key": text });
  } catch {
    return undefined;
  }
}

/** The same caller, with the cached prefixes that all share. */
export function shared(caller: Caller | Promise<Caller>): Caller | Promise<Caller> {
  if (caller instanceof Promise) return caller.then((each) => shared(each));
  return caller.cacheScope === undefined ? caller : { ...caller, cacheScope: undefined };
}
