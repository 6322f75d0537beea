/**
 * Calls back when a connection closes. A socket carries several requests (keep-alive, pipelining), so it gets one
 * listener for all of them.
 */
import type { Socket } from "node:net";

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

/** Calls back once the socket has closed. Returns a function that ends the watch. */
export function onSocketClose(socket: Socket, callback: () => void): () => void {
  const watchers = watchersOf(socket);
  watchers.add(callback);
  return () => {
    watchers.delete(callback);
  };
}
