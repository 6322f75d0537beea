/** From a request's fields, its key and the server's options to its terms. */
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
    isIsolated: context.isolatesApiKeys === true,
    priority,
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
  };
}
