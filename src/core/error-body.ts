/**
 * Errors in the clients' forms: OpenAI's, Anthropic's and Ollama's bodies, the same from an engine's server and from
 * the
 * gateway.
 */
import { ERROR_CODES, type ErrorCode, MillraceError } from "./errors.js";

export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** Anthropic's body, with our code where its clients look for one. */
export interface AnthropicErrorBody {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details: { readonly error_code: ErrorCode };
  };
  readonly request_id: string;
}

/** The form of errors in one vendor's API, by path. */
export interface ErrorDialect {
  errorBody(error: MillraceError, requestId: string): object;
  /** Sent beside X-Request-Id. */
  readonly requestIdHeader: string;
}

/** OpenAI's `type` for a status. */
function errorType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

const ANTHROPIC_TYPE_BY_STATUS: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [402, "billing_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [503, "overloaded_error"],
  [504, "timeout_error"],
]);

function anthropicErrorType(status: number): string {
  return ANTHROPIC_TYPE_BY_STATUS.get(status) ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/**
 * The message for the client. An unexpected error's text may contain anything, so the client is referred to the log
 * instead.
 */
function clientMessage(error: MillraceError, requestId: string): string {
  if (error.code === "internal_error") {
    return `the server failed on this request; its log has the reason under request id ${requestId}`;
  }
  return error.hint === undefined ? error.message : `${error.message}; ${error.hint}`;
}

export function errorBody(error: MillraceError, requestId: string): ErrorBody {
  const message = clientMessage(error, requestId);
  return { error: { message, type: errorType(error.status), param: error.param ?? null, code: error.code } };
}

export function anthropicErrorBody(error: MillraceError, requestId: string): AnthropicErrorBody {
  return {
    type: "error",
    error: {
      type: anthropicErrorType(error.status),
      message: clientMessage(error, requestId),
      details: { error_code: error.code },
    },
    request_id: requestId,
  };
}

/**
 * The error in the `errorBody` of another of our servers; undefined if the text is no such body. The error's message
 * includes the hint.
 *
 * @param keyHint how the reader gives a key; replaces the server's hint, which is about headers
 */
export function errorInBody(text: string, keyHint?: string): MillraceError | undefined {
  let error: Partial<Record<string, unknown>> | undefined | null;
  try {
    error = (JSON.parse(text) as { readonly error?: typeof error } | null)?.error;
  } catch {
    return undefined;
  }
  if (typeof error?.message !== "string") return undefined;
  const code = ERROR_CODES.find((each) => each === error.code) ?? "upstream_failed";
  const param = typeof error.param === "string" ? { param: error.param } : {};
  if (code !== "invalid_api_key" || keyHint === undefined) return new MillraceError(code, error.message, param);
  return new MillraceError(code, error.message.split("; ", 1)[0]!, { ...param, hint: keyHint });
}

/** Ollama's clients read one text; our code is a separate field. */
export function ollamaErrorBody(
  error: MillraceError,
  requestId: string,
): { readonly error: string; readonly code: string } {
  return { error: clientMessage(error, requestId), code: error.code };
}

export const OPENAI_ERRORS: ErrorDialect = { errorBody, requestIdHeader: "X-Request-Id" };

export const ANTHROPIC_ERRORS: ErrorDialect = { errorBody: anthropicErrorBody, requestIdHeader: "Request-Id" };

export const OLLAMA_ERRORS: ErrorDialect = { errorBody: ollamaErrorBody, requestIdHeader: "X-Request-Id" };
