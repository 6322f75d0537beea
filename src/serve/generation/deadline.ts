/** A request's time limit for its answer. */
import { MillraceError } from "../../core/errors.js";

export interface Deadline {
  /** On the clock of `performance.now()`. */
  readonly arrivedAtMs: number;
  /** Counted from the arrival; undefined = no limit. */
  readonly timeoutMs: number | undefined;
}

export function deadlineExceeded(timeoutMs: number, numTokens: number): MillraceError {
  return new MillraceError(
    "deadline_exceeded",
    `expected the whole answer within ${timeoutMs / 1000} s, got ${numTokens} tokens of it`,
    { param: "timeout", hint: "allow more time, or ask for fewer tokens" },
  );
}
