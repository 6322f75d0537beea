/** The proxy's id of a request, in an application of Hono. */
import type { IncomingMessage } from "node:http";
import type { Context } from "hono";

/** Not `c.req.header`: once a body has been read, it returns only the client's own headers. */
export function requestIdIn(c: Context): string {
  const { incoming } = c.env as { readonly incoming: IncomingMessage };
  return String(incoming.headers["x-request-id"] ?? "");
}
