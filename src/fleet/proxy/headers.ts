/**
 * Decides which headers pass the proxy: headers of a single connection do not, and API keys go only to their own
 * instances.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { CACHE_SCOPE_HEADER } from "../../core/cache-scope.js";
import { mediaTypeOf } from "../../gateway/dialects/wire/encoding.js";
import { PRIORITY_HEADER, TIMEOUT_HEADER } from "../../gateway/routes/terms-policy.js";
import type { Upstream, UpstreamTarget } from "../upstream/upstream.js";

/** Headers that belong to one connection (RFC 9110, 7.6.1). */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** Headers that the proxy sets itself or drops. */
const NOT_SENT = new Set([
  ...HOP_BY_HOP,
  "host",
  "content-length",
  "content-type",
  "expect",
  "accept-encoding",
  "x-request-id",
  CACHE_SCOPE_HEADER,
  // Engines get priority and timeout in the body, if they have such fields.
  PRIORITY_HEADER,
  TIMEOUT_HEADER,
  // Only the gateway decides which web pages may call, so engines do not get a browser's headers.
  "origin",
  "sec-fetch-site",
  "user-agent",
  // A browser's session belongs to the gateway: an instance could use its cookie.
  "cookie",
  "x-csrf-token",
]);
/**
 * Headers of an answer that pass, beside the providers' own. Many others affect a server's whole origin in a browser,
 * or
 * send the browser elsewhere, and new ones keep coming. The origin is the gateway's, with its app, while an instance
 * may
 * belong to anybody.
 */
const RETURNED = new Set([
  "cache-control",
  "content-disposition",
  "content-language",
  "content-length",
  "content-type",
  "deprecation",
  "retry-after",
  "retry-after-ms",
  "server",
  "server-timing",
  "sunset",
  "vary",
  "warning",
]);
const PROVIDERS_HEADERS = /^(?:x|openai|anthropic|ratelimit)-/;
/**
 * Headers of the gateway itself. An engine may send only one: ours lists the rules of a schema that it does not
 * enforce.
 */
const OWN_HEADERS = "x-millrace-";
const NOT_RETURNED = new Set(["x-request-id"]);

function isReturned(name: string): boolean {
  if (name.startsWith(OWN_HEADERS)) return name === "x-millrace-unenforced";
  return RETURNED.has(name) || (PROVIDERS_HEADERS.test(name) && !NOT_RETURNED.has(name));
}

/**
 * Browsers run no code in answers of these types, even opened as a page. Of several types separated by commas, browsers
 * take the last.
 */
const DATA_TYPE = /^(?:application\/json|text\/event-stream)\s*(?:;[^,]*)?$/;
/** Opened as a page, an answer has no origin and runs no code. */
const AS_PAGE = { "content-security-policy": "sandbox", "x-content-type-options": "nosniff" };
const CREDENTIALS = new Set(["authorization", "x-api-key"]);

/** The headers named by the Connection header. */
function connectionNames(headers: IncomingHttpHeaders): readonly string[] {
  const { connection } = headers;
  if (connection === undefined || connection === "keep-alive" || connection === "close") return [];
  return connection.split(",").map((name) => name.trim().toLowerCase());
}

/**
 * Names and values in alternation. The client's key passes unchanged, so that the engine can tell tenants apart, unless
 * the instance has its own key or is an attached server of unknown kind.
 * @param isKeyHidden the key is for the gateway only
 */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  upstream: Upstream,
  target: UpstreamTarget,
  requestId: string,
  traceparent: string | undefined,
  isKeyHidden = false,
): string[] {
  const named = connectionNames(headers);
  const dropsKeys = isKeyHidden || target.apiKey !== undefined || upstream.engine === "openai";
  // A compressed answer cannot be counted or searched, and the gateway could not end it with an event.
  const sent = ["x-request-id", requestId, "user-agent", "millrace", "accept-encoding", "identity"];
  for (const name in headers) {
    if (NOT_SENT.has(name) || named.includes(name) || (dropsKeys && CREDENTIALS.has(name))) continue;
    if (name === "traceparent" && traceparent !== undefined) continue;
    const value = headers[name];
    if (value !== undefined) sent.push(name, typeof value === "string" ? value : value.join(", "));
  }
  if (traceparent !== undefined) sent.push("traceparent", traceparent);
  if (target.apiKey !== undefined) sent.push("authorization", `Bearer ${target.apiKey}`);
  return sent;
}

/**
 * The headers of an upstream's answer that pass.
 * @param isEventStream the gateway may add an event, so the body may exceed its content-length
 */
export function answerHeaders(headers: IncomingHttpHeaders, isEventStream: boolean): OutgoingHttpHeaders {
  const named = connectionNames(headers);
  const returned: OutgoingHttpHeaders = {};
  for (const name in headers) {
    if (!isReturned(name) || named.includes(name)) continue;
    if (isEventStream && name === "content-length") continue;
    returned[name] = headers[name];
  }
  return DATA_TYPE.test(mediaTypeOf(headers)) ? returned : { ...returned, ...AS_PAGE };
}
