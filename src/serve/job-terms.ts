/** For whom, how urgently and until when a request runs, beside what it computes. */
import { MillraceError } from "../core/errors.js";
import type { AppContext, ServeContext } from "./context.js";

/** The part that the engine goes by. */
export interface EngineTerms {
  /** Whose request it is; "" on a server without keys. */
  readonly tenant: string;
  /** Cached prefixes are shared only within the tenant. */
  readonly isIsolated: boolean;
  readonly priority: number;
}

/** Of an engine that one user has to himself. */
export const SOLE_USER_TERMS: EngineTerms = { tenant: "", isIsolated: false, priority: 0 };

export interface JobTerms extends EngineTerms {
  readonly arrivedAtMs: number;
  /** Counted from the arrival; undefined = as long as it takes. */
  readonly timeoutMs: number | undefined;
}

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

/** The salt that the engine keeps prefixes apart by. A tenant holds no colon, so no two pairs of tenant and salt become the same. */
export function prefixSalt({ isIsolated, tenant }: EngineTerms, cacheSalt: string | undefined): string | undefined {
  return isIsolated ? `${tenant}:${cacheSalt ?? ""}` : cacheSalt;
}

export function deadlineExceeded(timeoutMs: number, numTokens: number): MillraceError {
  return new MillraceError(
    "deadline_exceeded",
    `expected the whole answer within ${timeoutMs / 1000} s, got ${numTokens} tokens of it`,
    { param: "timeout", hint: "allow more time, or ask for fewer tokens" },
  );
}
