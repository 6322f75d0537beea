/** The format of errors on each kind of route: as a whole answer, and as the last event of a stream. */
import {
  ANTHROPIC_ERRORS,
  anthropicErrorBody,
  type ErrorDialect,
  errorBody,
  OPENAI_ERRORS,
} from "../../core/error-body.js";
import type { MillraceError } from "../../core/errors.js";

export interface ProxyDialect extends ErrorDialect {
  /**
   * The last event of a stream that ends early. After an instance's failure no [DONE] follows: clients may ask again.
   */
  streamError(error: MillraceError, requestId: string): string;
}

const event = (body: object): string => `event: error\ndata: ${JSON.stringify(body)}\n\n`;

export const OPENAI: ProxyDialect = {
  ...OPENAI_ERRORS,
  streamError(error, requestId) {
    // Our engine also ends a stream with [DONE] at the client's own time limit.
    const end = error.code === "deadline_exceeded" ? "data: [DONE]\n\n" : "";
    return `data: ${JSON.stringify(errorBody(error, requestId))}\n\n${end}`;
  },
};

/** Events of /v1/responses have types. The error is repeated under `error` for clients of the other APIs. */
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
