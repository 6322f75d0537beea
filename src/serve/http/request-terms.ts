/** From a request's fields, its key and the server's options to its terms. */

import { CACHE_SCOPE_HEADER, isCacheScope } from "../../core/cache-scope.js";
import { MillraceError } from "../../core/errors.js";
import { scopedSalt } from "../../text/block-hash.js";
import type { Deadline } from "../generation/deadline.js";
import type { AppContext, ServeContext } from "./context.js";

/** The terms that a request names itself; see `termsShape`. */
interface TermsFields {
  readonly cache_salt?: string | undefined;
  readonly priority?: number | undefined;
  /** Seconds. */
  readonly timeout?: number | undefined;
}

/** For whom, how urgently and until when a request runs. */
export interface RequestTerms extends Deadline {
  /** "" on a server without keys. */
  readonly tenant: string;
  readonly priority: number;
  /** Requests share cached prefixes and drafts with requests of the same salt; undefined: with all that have none. */
  readonly cacheSalt: string | undefined;
}

export function requestTerms(c: AppContext, context: ServeContext, fields: TermsFields): RequestTerms {
  const { priority = 0, timeout } = fields;
  const policy = context.schedulingPolicy ?? "fcfs";
  if (priority !== 0 && policy !== "priority") {
    throw new MillraceError(
      "invalid_parameter",
      `priority: expected 0 on a server whose scheduling policy is ${policy}, got ${priority}`,
      { param: "priority", hint: "leave it out, or start the server with --scheduling-policy priority" },
    );
  }
  return {
    arrivedAtMs: c.get("startMs"),
    tenant: c.get("tenant"),
    priority,
    cacheSalt: scopedSalt(cacheScope(c, context), fields.cache_salt),
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
  };
}

/**
 * Whose share the request is served from. A gateway tells its clients apart by the scopes that it names; where a server has at most one key, they are its
 * tenants. Of several keys each is a tenant, whatever its requests name: with a scope for each request, a key would have a share for each.
 */
export function tenantOf(c: AppContext, numKeys: number, keyTenant: string): string {
  return numKeys > 1 ? keyTenant : (scopeOf(c) ?? keyTenant);
}

/** Whoever sends a scope himself can only share less. */
function cacheScope(c: AppContext, { isolatesApiKeys }: ServeContext): string {
  const own = isolatesApiKeys === true ? c.get("tenant") : "";
  const scope = scopeOf(c);
  if (scope === undefined || scope === own) return own;
  return own === "" ? scope : `${own}.${scope}`;
}

function scopeOf(c: AppContext): string | undefined {
  const scope = c.req.header(CACHE_SCOPE_HEADER);
  if (scope === undefined || isCacheScope(scope)) return scope;
  throw new MillraceError("invalid_request", `expected 32 hexadecimal digits in ${CACHE_SCOPE_HEADER}, got others`);
}
