/** For whom, how urgently and until when a request runs, beside what it computes. */
import { MillraceError } from "../../core/errors.js";

/** The part that the engine goes by. */
export interface EngineTerms {
  /** Whose request it is; "" on a server without keys. */
  readonly tenant: string;
  /** Cached prefixes and drafts are shared only within it; "": by all. */
  readonly cacheScope: string;
  readonly priority: number;
}

/** Of an engine that one user has to himself. */
export const SOLE_USER_TERMS: EngineTerms = { tenant: "", cacheScope: "", priority: 0 };

export interface JobTerms extends EngineTerms {
  readonly arrivedAtMs: number;
  /** Counted from the arrival; undefined = as long as it takes. */
  readonly timeoutMs: number | undefined;
}

export function deadlineExceeded(timeoutMs: number, numTokens: number): MillraceError {
  return new MillraceError(
    "deadline_exceeded",
    `expected the whole answer within ${timeoutMs / 1000} s, got ${numTokens} tokens of it`,
    { param: "timeout", hint: "allow more time, or ask for fewer tokens" },
  );
}
