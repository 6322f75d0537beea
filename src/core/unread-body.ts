/** What happens to the rest of a body whose request has been refused. */
import type { IncomingMessage } from "node:http";

const UNREAD_BODY_MS = 1_000;

/** Reads and drops the rest of a refused body for a while: closing at once would reset the connection before the client reads the answer. */
export function cutUnreadBody(incoming: IncomingMessage): void {
  if (incoming.complete) return;
  setTimeout(() => {
    if (!incoming.complete) incoming.destroy();
  }, UNREAD_BODY_MS).unref();
}
