/** Tells a request that its client has gone. */
import { onSocketClose } from "../../core/socket-close.js";
import type { AppContext } from "./context.js";

/**
 * Calls back when the client's connection closes, at once if it already has. Returns the call that ends the watch.
 * A response's own "close" would not do: a pipelined response has no socket until its turn comes. A client that only
 * half-closes its connection may still listen (see answerHalfClosed).
 */
export function onDisconnect(c: AppContext, callback: () => void): () => void {
  const socket = c.env?.incoming?.socket;
  if (socket === undefined) return () => {};
  if (socket.destroyed) {
    callback();
    return () => {};
  }
  return onSocketClose(socket, callback);
}
