/** Builds the request for one instance: with the instance's name for the model, our seed, and the cache scope. */
import type { Dispatcher } from "undici";
import { CACHE_SCOPE_HEADER, saltOfScope } from "../../core/cache-scope.js";
import type { Lease } from "../routing/router.js";
import type { EngineName } from "../upstream/engine.js";
import type { Sendable } from "./arrival.js";
import { editBody } from "./edit-body.js";
import { requestHeaders } from "./headers.js";
import { assertApart, isolationAt } from "./isolation.js";
import { FROM_AFAR_HEADER } from "./request-terms.js";

export function messageTo(
  { upstream, target }: Lease,
  sendable: Sendable,
  seed: number | undefined,
  traceparent: string | undefined,
): Dispatcher.DispatchOptions {
  const { id, headers: clientHeaders, route, path, url, bytes, body: clientBody } = sendable.request;
  const headers = requestHeaders(clientHeaders, upstream, target, id, traceparent);
  const { method = "POST" } = route;
  if (method === "GET") return { path, method, headers };
  const { cacheSalt, scopeHeader } = toldScope(sendable, upstream.engine);
  // The body has been read as JSON, whatever the client calls it; engines refuse JSON under another name.
  headers.push("content-type", "application/json", ...scopeHeader);
  if ((target.distance ?? 0) > 0) headers.push(FROM_AFAR_HEADER, "1");
  const body = editBody(bytes, clientBody, { model: target.modelName, seed, cacheSalt });
  return { path: url, method, headers, body };
}

/** The cache scope in the form that the engine understands: a header or a `cache_salt`. */
function toldScope({ request: { body, path }, cacheScope: scopeNow }: Sendable, engine: EngineName) {
  const nothing = { cacheSalt: undefined, scopeHeader: [] };
  const cacheScope = scopeNow();
  if (cacheScope === "") return nothing;
  assertApart(engine, path);
  const isolation = isolationAt(engine, path);
  if (isolation === "header") return { cacheSalt: undefined, scopeHeader: [CACHE_SCOPE_HEADER, cacheScope] };
  if (isolation !== "cache_salt") return nothing;
  const own = typeof body.cache_salt === "string" ? body.cache_salt : undefined;
  return { cacheSalt: saltOfScope(cacheScope, own), scopeHeader: [] };
}
