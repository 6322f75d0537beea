/** How errors are told on each kind of route: as a whole answer, and as the last event of a stream. */
import {
  ANTHROPIC_ERRORS,
  anthropicErrorBody,
  type ErrorDialect,
  errorBody,
  OPENAI_ERRORS,
} from "../../core/error-body.js";
import type { MillraceError } from "../../core/errors.js";

export interface ProxyDialect extends ErrorDialect {
  /** An event that tells why a stream ends too early. No [DONE] follows: what came is not a whole answer. */
  streamError(error: MillraceError, requestId: string): string;
}

const event = (body: object): string => `event: error\ndata: ${JSON.stringify(body)}\n\n`;

export const OPENAI: ProxyDialect = {
  ...OPENAI_ERRORS,
  streamError: (error, requestId) => `data: ${JSON.stringify(errorBody(error, requestId))}\n\n`,
};

/** Its events have types; the error is there once more in the form that clients of both kinds look for. */
export const OPENAI_RESPONSES: ProxyDialect = {
  ...OPENAI,
  streamError(error, requestId) {
    const body = errorBody(error, requestId);
    const { code, message, param } = body.error;
    return event({ type: "error", code, message, param, ...body });
  },
};

export const ANTHROPIC: ProxyDialect = {
  ...ANTHROPIC_ERRORS,
  streamError: (error, requestId) => event(anthropicErrorBody(error, requestId)),
};
