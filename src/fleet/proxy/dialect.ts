/** How errors are told on each kind of route: as a whole answer, and as the last event of a stream. */
import { anthropicErrorBody, errorBody } from "../../core/error-body.js";
import type { MillraceError } from "../../core/errors.js";

export interface Dialect {
  errorBody(error: MillraceError, requestId: string): object;
  /** An event that tells why a stream ends too early. No [DONE] follows: what came is not a whole answer. */
  streamError(error: MillraceError, requestId: string): string;
  readonly requestIdHeader: string;
}

const event = (body: object): string => `event: error\ndata: ${JSON.stringify(body)}\n\n`;

export const OPENAI: Dialect = {
  errorBody,
  streamError: (error, requestId) => `data: ${JSON.stringify(errorBody(error, requestId))}\n\n`,
  requestIdHeader: "X-Request-Id",
};

/** Its events have types; the error is there once more in the form that clients of both kinds look for. */
export const OPENAI_RESPONSES: Dialect = {
  ...OPENAI,
  streamError(error, requestId) {
    const body = errorBody(error, requestId);
    const { code, message, param } = body.error;
    return event({ type: "error", code, message, param, ...body });
  },
};

export const ANTHROPIC: Dialect = {
  errorBody: anthropicErrorBody,
  streamError: (error, requestId) => event(anthropicErrorBody(error, requestId)),
  requestIdHeader: "Request-Id",
};
