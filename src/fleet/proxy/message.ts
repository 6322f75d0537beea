/** A request as one instance gets it: under the name that it knows the model by, with our seed, and told whose cache it may use. */
import type { Dispatcher } from "undici";
import { CACHE_SCOPE_HEADER } from "../../core/cache-scope.js";
import { scopedSalt } from "../../text/block-hash.js";
import type { EngineName } from "../adapters/adapter.js";
import { ADAPTERS } from "../adapters/index.js";
import type { Lease } from "../routing/router.js";
import type { Arrival, Sendable } from "./arrival.js";
import { editBody } from "./edit-body.js";
import { requestHeaders } from "./headers.js";

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
function toldScope({ body, cacheScope }: Sendable, engine: EngineName, path: string) {
  const { cacheScope: means } = ADAPTERS[engine];
  const nothing = { cacheSalt: undefined, scopeHeader: [] };
  if (cacheScope === "" || means === undefined) return nothing;
  if (means === "header") return { cacheSalt: undefined, scopeHeader: [CACHE_SCOPE_HEADER, cacheScope] };
  const own = typeof body.cache_salt === "string" ? body.cache_salt : undefined;
  return means.includes(path) ? { cacheSalt: scopedSalt(cacheScope, own), scopeHeader: [] } : nothing;
}
