/** Anthropic's error body, its names for statuses, and our code where its clients look for one. */
import type { ErrorCode, MillraceError } from "../../core/errors.js";
import type { Dialect } from "../context.js";
import { clientMessage } from "../error-response.js";

export interface AnthropicErrorBody {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details: { readonly error_code: ErrorCode };
  };
  readonly request_id: string;
}

const TYPE_BY_STATUS: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [503, "overloaded_error"],
  [504, "timeout_error"],
]);

function errorType(status: number): string {
  return TYPE_BY_STATUS.get(status) ?? (status < 500 ? "invalid_request_error" : "api_error");
}

export function anthropicErrorBody(error: MillraceError, requestId: string): AnthropicErrorBody {
  return {
    type: "error",
    error: {
      type: errorType(error.status),
      message: clientMessage(error, requestId),
      details: { error_code: error.code },
    },
    request_id: requestId,
  };
}

export const ANTHROPIC_DIALECT: Dialect = { errorBody: anthropicErrorBody, requestIdHeader: "Request-Id" };
