/** Tells a request that its client has gone. A socket carries several requests (keep-alive, pipelining), so it gets one listener for all of them. */
import type { Socket } from "node:net";
import type { AppContext } from "./context.js";

const watchersBySocket = new WeakMap<Socket, Set<() => void>>();

function watchersOf(socket: Socket): Set<() => void> {
  const known = watchersBySocket.get(socket);
  if (known !== undefined) return known;
  const watchers = new Set<() => void>();
  watchersBySocket.set(socket, watchers);
  socket.once("close", () => {
    for (const watcher of [...watchers]) watcher();
    watchers.clear();
  });
  return watchers;
}

/** Calls back once the socket has closed. Returns the call that ends the watch. */
export function onSocketClose(socket: Socket, callback: () => void): () => void {
  const watchers = watchersOf(socket);
  watchers.add(callback);
  return () => {
    watchers.delete(callback);
  };
}

/**
 * Calls back when the client's connection closes, at once if it already has. Returns the call that ends the watch.
 * A response's own "close" would not do: a pipelined response has no socket until its turn comes. A client that half-closes its
 * connection counts as gone, which is Node's own rule for HTTP servers.
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
