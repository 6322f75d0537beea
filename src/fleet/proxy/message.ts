/** Builds the request for one instance, with the instance's name for the model, our seed, and the cache scope. */
import type { Dispatcher } from "undici";
import { CACHE_SCOPE_HEADER, saltOfScope } from "../../core/cache-scope.js";
import { MillraceError } from "../../core/errors.js";
import { CUTTING_ENGINES } from "../../gateway/cut-texts.js";
import { type Provider, providerRequest } from "../../gateway/dialects/provider.js";
import type { Translation } from "../../gateway/dialects/translation.js";
import { withFields } from "../../gateway/edit-json.js";
import { OLLAMA } from "../../gateway/ollama/endpoints.js";
import type { GatewayRequest } from "../../gateway/request.js";
import type { Lease } from "../routing/router.js";
import type { EngineName } from "../upstream/engine.js";
import type { UpstreamTarget } from "../upstream/upstream.js";
import type { Sendable } from "./arrival.js";
import { type BodyEdit, editBody } from "./edit-body.js";
import { requestHeaders } from "./headers.js";
import { assertApart, isolationAt } from "./isolation.js";
import { FROM_AFAR_HEADER } from "./request-terms.js";

export interface Message extends Dispatcher.DispatchOptions {
  /** Turns the answer into the client's dialect; undefined: the answer is in it already. */
  readonly translation?: Translation;
}

export function messageTo(
  { upstream, target }: Lease,
  given: Sendable,
  seed: number | undefined,
  traceparent: string | undefined,
): Message {
  const request = uncut(given.request, upstream.engine);
  const sendable = request === given.request ? given : { ...given, request };
  const { id, headers: clientHeaders, route, path, url, bytes, body: clientBody } = sendable.request;
  if (target.provider !== undefined) return toProvider(target, target.provider, sendable);
  const { isKeyHidden } = sendable.request.caller;
  const headers = requestHeaders(clientHeaders, upstream, target, id, traceparent, isKeyHidden);
  const { method = "POST" } = route;
  if (method === "GET") return { path, method, headers };
  const { cacheSalt, scopeHeader } = toldScope(sendable, upstream.engine);
  // The body was read as JSON, whatever type the client states; engines refuse JSON under another type.
  headers.push("content-type", "application/json", ...scopeHeader);
  if ((target.distance ?? 0) > 0) headers.push(FROM_AFAR_HEADER, "1");
  // A policy may have chosen the model: the body then has a name that is unknown to the engine.
  const model = target.modelName ?? (clientBody.model === undefined ? undefined : sendable.request.model);
  const { priority, timeout } = toldTerms(sendable, upstream.engine);
  const body = editBody(bytes, clientBody, { model, seed, cacheSalt, priority, timeout });
  return { path: url, method, headers, body };
}

/** An Ollama client's request without the field that truncates texts, for engines that refuse the field. */
function uncut(request: GatewayRequest, engine: EngineName): GatewayRequest {
  const { body, bytes, route } = request;
  if (route.dialect !== OLLAMA || CUTTING_ENGINES.includes(engine) || !Object.hasOwn(body, "truncate_prompt_tokens"))
    return request;
  const { truncate_prompt_tokens: _, ...rest } = body;
  return { ...request, body: rest, bytes: withFields(bytes, body, { truncate_prompt_tokens: undefined }) };
}

/** A third party gets only the client headers that belong to its API. */
function toProvider(target: UpstreamTarget, provider: Provider, { request, cacheScope }: Sendable): Message {
  const { route, path } = request;
  if (cacheScope() !== "") assertApart(provider.engine, path);
  if (route.method === "GET")
    throw new MillraceError("not_found", `expected a path of a paid API, got ${path.slice(0, 80)}`);
  const model = target.modelName ?? request.model;
  const asked = providerRequest(provider, target.url, model, request, new Date());
  const headers = ["user-agent", "millrace", "content-type", "application/json", "accept-encoding", "identity"];
  for (const name in asked.headers) headers.push(name, asked.headers[name]!);
  return { path: asked.path, method: "POST", headers, body: asked.body, translation: asked.translation };
}

/** Priority and deadline in the engine's own fields, if it has them. The rest of the client's body stays unchanged. */
function toldTerms(
  { request, entrant, schedulesByPriority }: Sendable,
  engine: EngineName,
): Pick<BodyEdit, "priority" | "timeout"> {
  const { priority: asked, caller, deadlineMs, route, body } = request;
  // An engine refuses priorities that its scheduling policy does not use.
  const isTold = schedulesByPriority && (asked ?? caller.priority) !== undefined;
  const priority = isTold ? entrant.priority : undefined;
  if (deadlineMs === undefined || engine !== "millrace" || !route.runsPrompt) return { priority };
  const leftS = Math.max(MIN_TIMEOUT_S, (deadlineMs - performance.now()) / 1000);
  const isOwnRight = typeof body.timeout === "number" && body.timeout <= leftS + MAX_LATE_S;
  return isOwnRight ? { priority } : { priority, timeout: Number(leftS.toFixed(3)) };
}

const MIN_TIMEOUT_S = 0.001;
/** The client's own `timeout` stays unchanged if the request has waited for less. */
const MAX_LATE_S = 0.05;

/** The cache scope in the engine's form: a header or a `cache_salt`. */
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
