/** A request as one instance gets it: under the name that it knows the model by, with our seed, and told whose cache it may use. */
import { createHash } from "node:crypto";
import type { Dispatcher } from "undici";
import { CACHE_SCOPE_HEADER } from "../../core/cache-scope.js";
import type { Lease } from "../routing/router.js";
import type { EngineName } from "../upstream/engine.js";
import type { Arrival, Sendable } from "./arrival.js";
import { editBody } from "./edit-body.js";
import { requestHeaders } from "./headers.js";
import { assertApart, isolationAt } from "./isolation.js";

export function messageTo(
  { upstream, target }: Lease,
  { incoming, route, requestId, path, url }: Arrival,
  sendable: Sendable,
  seed: number | undefined,
  traceparent: string | undefined,
): Dispatcher.DispatchOptions {
  const headers = requestHeaders(incoming.headers, upstream, target, requestId, traceparent);
  const { method = "POST" } = route;
  if (method === "GET") return { path, method, headers };
  const { cacheSalt, scopeHeader } = toldScope(sendable, upstream.engine, path);
  headers.push(...scopeHeader);
  const body = editBody(sendable.bytes, sendable.body, { model: target.modelName, seed, cacheSalt });
  return { path: url, method, headers, body };
}

/** How an engine is told whose cached prefixes a request may use. */
function toldScope({ body, cacheScope: scopeNow }: Sendable, engine: EngineName, path: string) {
  const nothing = { cacheSalt: undefined, scopeHeader: [] };
  const cacheScope = scopeNow();
  if (cacheScope === "") return nothing;
  assertApart(engine, path);
  const isolation = isolationAt(engine, path);
  if (isolation === "header") return { cacheSalt: undefined, scopeHeader: [CACHE_SCOPE_HEADER, cacheScope] };
  if (isolation !== "cache_salt") return nothing;
  const own = typeof body.cache_salt === "string" ? body.cache_salt : "";
  // As a hash: vLLM takes 128 characters and not all of them, and clients may have a salt of their own.
  return { cacheSalt: createHash("sha256").update(`${cacheScope}:${own}`).digest("hex"), scopeHeader: [] };
}
