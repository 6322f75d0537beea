/** Watches for a client that disconnects. */
import { onSocketClose } from "../../core/socket-close.js";
import type { AppContext } from "./context.js";

/**
 * Calls back when the client's connection closes, or at once if it is closed already. Returns a function that ends the
 * watch. The response's own "close" does not suffice: a pipelined response has no socket until its turn. A client that
 * only half-closes its connection may still read (see answerHalfClosed).
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
