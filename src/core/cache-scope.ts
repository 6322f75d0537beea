import { createHash } from "node:crypto";

/** The header by which a gateway tells our engine which cached prefixes a request may use. */
export const CACHE_SCOPE_HEADER = "x-millrace-cache-scope";

export function isCacheScope(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text);
}

/** Whether tenants keep their cached prefixes apart: the option decides; by default, yes if there are two tenants. */
export function keepsApart(tenants: readonly string[], isWanted: boolean | undefined): boolean {
  return isWanted ?? new Set(tenants).size > 1;
}

/**
 * The `cache_salt` that separates tenants' prefixes in other engines: a hash, since vLLM limits the salt to 128
 * characters of a restricted set, and the client's own salt must be part of it.
 */
export function saltOfScope(scope: string, own: string | undefined): string {
  return createHash("sha256")
    .update(`${scope}:${own ?? ""}`)
    .digest("hex");
}
