import { createHash } from "node:crypto";

/** How a gateway tells an engine of ours whose cached prefixes a request may use. */
export const CACHE_SCOPE_HEADER = "x-millrace-cache-scope";

export function isCacheScope(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text);
}

/** Whether tenants keep their cached prefixes apart: as soon as there are two tenants, unless the option decides. */
export function keepsApart(tenants: readonly string[], isWanted: boolean | undefined): boolean {
  return isWanted ?? new Set(tenants).size > 1;
}

/**
 * The `cache_salt` by which an engine of others keeps a tenant's prefixes apart: a hash, since vLLM limits the salt to
 * 128 characters of a restricted set, and the client's own salt must be part of it.
 */
export function saltOfScope(scope: string, own: string | undefined): string {
  return createHash("sha256")
    .update(`${scope}:${own ?? ""}`)
    .digest("hex");
}
