/**
 * Turns errors into HTTP answers, for all routes: status, body, headers, and the log line of a refused or failed
 * request.
 */
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { loggedMessage, messageLeftOut, originOf } from "../../core/client-text.js";
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { AppContext } from "./context.js";

/**
 * Logs a refused or failed request: one line above `debug`, and the client's text in another line at `debug`. Call it
 * exactly once per failure.
 * @param route the path of the matched route, not the client's own text; undefined: no route matched
 */
export function logFailure(logger: RequestLogger, error: MillraceError, requestId: string, route?: string): void {
  const fields = { requestId, path: route, code: error.code, status: error.status };
  if (error.code === "client_closed") logger.debug(fields, "client went away");
  else if (error.code === "deadline_exceeded") logger.warn(fields, loggedMessage("ended", error));
  else if (error.status < 500) logger.warn(fields, loggedMessage("refused", error));
  else logger.error({ ...fields, err: originOf(error.cause ?? error) }, loggedMessage("failed", error));
  const leftOut = messageLeftOut(error);
  if (leftOut !== undefined) logger.debug({ requestId, param: error.param, err: error.cause }, leftOut);
}

export function respondWithError(c: AppContext, thrown: unknown, logger: RequestLogger): Response {
  const error = toMillraceError(thrown);
  const requestId = c.get("requestId");
  logFailure(logger, error, requestId, c.get("route"));
  c.get("note")?.failed(error);
  if (error.code === "client_closed" && c.env?.outgoing !== undefined) return RESPONSE_ALREADY_SENT;
  if (error.retryAfterSeconds !== undefined) c.header("Retry-After", String(Math.ceil(error.retryAfterSeconds)));
  // A retry would cost as much and be late again. Both vendors' clients obey this header.
  if (error.code === "deadline_exceeded") c.header("x-should-retry", "false");
  if (error.code === "invalid_api_key") c.header("WWW-Authenticate", "Bearer");
  // A stalled body leaves the connection unusable, and a draining server closes its connections. If a body is too
  // large, the adapter reads and drops the rest, within bounds: closing at once would reset the connection before the
  // client has read the answer.
  if (error.code === "request_timeout" || error.code === "shutting_down") c.header("Connection", "close");
  return c.json(c.get("dialect").errorBody(error, requestId), error.status as ContentfulStatusCode);
}
