/** The proxy's own answers: errors in the route's format, and small JSON objects. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { loggedMessage, originOf } from "../../core/client-text.js";
import type { ErrorCode, MillraceError } from "../../core/errors.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { ProxyDialect } from "../../gateway/api/dialect.js";
import { isOwnPath } from "../../gateway/api/routes.js";

const UNREAD_BODY_MS = 1_000;
const NOT_WORTH_A_RETRY: readonly ErrorCode[] = ["upstream_timeout", "not_cached", "idempotency_conflict"];

/** @param value an object, or the bytes of JSON */
export function respondJson(outgoing: ServerResponse, status: number, requestId: string, value: object): void {
  const body = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
  outgoing.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": body.length,
    "X-Request-Id": requestId,
  });
  outgoing.end(body);
}

export function respondWithError(
  outgoing: ServerResponse,
  error: MillraceError,
  dialect: ProxyDialect,
  requestId: string,
): void {
  if (outgoing.destroyed || outgoing.headersSent) return;
  if (error.retryAfterSeconds !== undefined) outgoing.setHeader("Retry-After", Math.ceil(error.retryAfterSeconds));
  for (const name in error.headers) outgoing.setHeader(name, error.headers[name]!);
  if (error.code === "invalid_api_key") outgoing.setHeader("WWW-Authenticate", "Bearer");
  // A retry would fail again, at the same cost. The clients of both vendors obey this header.
  if (NOT_WORTH_A_RETRY.includes(error.code)) outgoing.setHeader("x-should-retry", "false");
  // A stalled body leaves the connection unusable, and a draining gateway closes its connections.
  if (error.code === "request_timeout" || error.code === "shutting_down") outgoing.setHeader("Connection", "close");
  if (dialect.requestIdHeader !== "X-Request-Id") outgoing.setHeader(dialect.requestIdHeader, requestId);
  respondJson(outgoing, error.status, requestId, dialect.errorBody(error, requestId));
  cutUnreadBody(outgoing.req);
}

/**
 * Reads and drops the rest of a refused body for a while: closing at once would reset the connection before the client
 * has read the answer.
 */
function cutUnreadBody(incoming: IncomingMessage): void {
  if (incoming.complete) return;
  setTimeout(() => {
    if (!incoming.complete) incoming.destroy();
  }, UNREAD_BODY_MS).unref();
}

/**
 * Logs refusals, which are the client's fault, at debug level, and failures of the gateway or an instance above that.
 */
export function logFailure(logger: RequestLogger, error: MillraceError, requestId: string, path: string): void {
  const fields = { requestId, path: isOwnPath(path) ? path : undefined, code: error.code, status: error.status };
  if (error.code === "internal_error")
    logger.error({ ...fields, err: originOf(error.cause ?? error) }, loggedMessage("failed", error));
  else if (error.status < 500) logger.debug({ ...fields, path }, `refused: ${error.message}`);
  else logger.warn(fields, loggedMessage("failed", error));
}
