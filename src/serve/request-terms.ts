/** From a request's fields, its key and the server's options to its terms. */

import { CACHE_SCOPE_HEADER, isCacheScope } from "../core/cache-scope.js";
import { MillraceError } from "../core/errors.js";
import type { AppContext, ServeContext } from "./context.js";
import type { JobTerms } from "./job-terms.js";

/** What requests say about their terms; see `termsShape`. */
export interface TermsFields {
  readonly priority?: number | undefined;
  /** Seconds. */
  readonly timeout?: number | undefined;
}

export function jobTerms(c: AppContext, context: ServeContext, fields: TermsFields): JobTerms {
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
    cacheScope: cacheScope(c, context),
    priority,
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
  };
}

/** A gateway knows its clients' tenants, which are one to the engine behind it. Whoever sends a scope himself can only share less. */
function cacheScope(c: AppContext, { isolatesApiKeys }: ServeContext): string {
  const own = isolatesApiKeys === true ? c.get("tenant") : "";
  const scope = c.req.header(CACHE_SCOPE_HEADER);
  if (scope === undefined) return own;
  if (isCacheScope(scope)) return own === "" ? scope : `${own}.${scope}`;
  throw new MillraceError("invalid_request", `expected 32 hexadecimal digits in ${CACHE_SCOPE_HEADER}, got others`);
}
