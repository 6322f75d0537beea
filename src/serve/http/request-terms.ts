/** Derives a request's terms from its fields, key, headers and the server's options. */

import { BACKGROUND_HEADER } from "../../core/background.js";
import { CACHE_SCOPE_HEADER, isCacheScope } from "../../core/cache-scope.js";
import { MillraceError } from "../../core/errors.js";
import { scopedSalt } from "../../text/block-hash.js";
import type { Deadline } from "../generation/deadline.js";
import type { AppContext, ServeContext } from "./context.js";

/** The terms in a request's own fields; see `termsShape`. */
interface TermsFields {
  readonly cache_salt?: string | undefined;
  readonly priority?: number | undefined;
  /** In seconds. */
  readonly timeout?: number | undefined;
}

/** The tenant, priority, cache sharing and deadline of a request. */
export interface RequestTerms extends Deadline {
  /** "" on a server without keys. */
  readonly tenant: string;
  readonly priority: number;
  /** Computed only in steps that have no other work. */
  readonly isBackground: boolean;
  /**
   * Requests share cached prefixes and drafts with requests of the same salt; undefined: with all requests that have no
   * salt.
   */
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
    isBackground: c.req.header(BACKGROUND_HEADER) === "1",
    cacheSalt: scopedSalt(cacheScope(c, context), fields.cache_salt),
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
  };
}

/**
 * The tenant whose share of the engine serves the request. On a server with at most one key, the tenants are the scopes
 * that a gateway names for its clients. On a server with several keys, each key is one tenant, regardless of the scopes
 * in
 * its requests: otherwise a key could get a new share in each request by naming a new scope.
 */
export function tenantOf(c: AppContext, numKeys: number, keyTenant: string): string {
  return numKeys > 1 ? keyTenant : (scopeOf(c) ?? keyTenant);
}

/** A client that names its own scope can only narrow the sharing of its prefixes. */
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
