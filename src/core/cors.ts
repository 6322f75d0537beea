/**
 * The web pages that may use a server from their visitors' browsers. Headers are a plain record, since streamed answers
 * bypass Hono.
 */
import { isIP } from "node:net";
import { hostname } from "node:os";
import { MillraceError } from "./errors.js";
import { isLoopback } from "./loopback.js";

export type HeaderRecord = Readonly<Record<string, string>>;

export interface PagePolicy {
  /** Origins whose pages may call; `*`: all. Credentials (cookies) are never allowed. */
  readonly origins: readonly string[];
  /**
   * Refuses other pages' requests instead of only hiding the answers: without keys, nothing else distinguishes a page's
   * request from its visitor's own.
   */
  readonly refusesOthers: boolean;
  /** The configured host of the server. */
  readonly listensOn: string;
}

/** Every page may make every request. */
export const ANY_PAGE: PagePolicy = { origins: ["*"], refusesOthers: false, listensOn: "127.0.0.1" };

/**
 * @param said the configured origins; undefined: with keys all pages, since a page needs a key like every client;
 *   without
 * keys only the server's own pages
 */
export function pagePolicy(said: readonly string[] | undefined, hasKeys: boolean, host: string): PagePolicy {
  const origins = said ?? (hasKeys ? ["*"] : []);
  return { origins, refusesOthers: !hasKeys && !origins.includes("*"), listensOn: host };
}

/** @param name in lower case */
export type HeaderOf = (name: "origin" | "host" | "sec-fetch-site" | "user-agent") => string | undefined;

/**
 * Throws `forbidden` for pages that may not call, including pages that use DNS rebinding: their own name was redirected
 * to
 * the server after they loaded. The browser takes such a page for the server's own, and only the name in Host reveals
 * it;
 * so Host must have a name that no other site can point here, or one that the operator has configured.
 */
export function assertPageAllowed(policy: PagePolicy, headerOf: HeaderOf): void {
  if (!policy.refusesOthers) return;
  const origin = headerOf("origin");
  if (origin !== undefined && policy.origins.includes(origin)) return;
  const host = headerOf("host")?.toLowerCase() ?? "";
  const isOwn = origin === undefined || hostOf(origin) === host;
  if (!isOwn) throw refused("a page of this server, or of an origin it allows", `one of ${origin.slice(0, 80)}`);
  if (policy.origins.some((allowed) => hostOf(allowed) === host)) return;
  if (isTrustedName(nameOf(host), policy.listensOn)) return;
  // A server that listens beyond loopback may be reached under any name; only for pages, the name is restricted.
  if (!isLoopback(policy.listensOn) && !isBrowser(headerOf)) return;
  throw refused("an address or a local name in Host, or the name of an origin it allows", host.slice(0, 80));
}

/**
 * Origin comes with all requests but a page's own GET, and Sec-Fetch-Site only to addresses that browsers trust, so the
 * User-Agent counts as well. Sec-Fetch-Mode is unsuitable: Node's fetch sends it. PowerShell's User-Agent has Mozilla
 * too.
 */
function isBrowser(headerOf: HeaderOf): boolean {
  if (headerOf("origin") !== undefined || headerOf("sec-fetch-site") !== undefined) return true;
  return /^Mozilla\/(?!.*PowerShell\/)/.test(headerOf("user-agent") ?? "");
}

function refused(expected: string, got: string): MillraceError {
  return new MillraceError("forbidden", `expected ${expected}, got ${got}`, {
    hint: "give the server keys (--api-key; in a fleet's file api-keys), or name the origin in --allowed-origins (there allowed-origins)",
  });
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

/** Without port, brackets, and a fully qualified name's final dot. */
function nameOf(host: string): string {
  return host
    .replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "");
}

/** Domains of nearby machines; public name servers do not answer for them. */
const LOCAL_DOMAIN = /\.(?:localhost|local|lan|internal|home\.arpa)$/;

/**
 * Whether a page cannot have redirected the name: an address, a local name, the machine's own name, or the configured
 * host.
 */
function isTrustedName(name: string, listensOn: string): boolean {
  if (isIP(name) !== 0 || !name.includes(".") || LOCAL_DOMAIN.test(name)) return true;
  return name === listensOn.toLowerCase() || name === hostname().toLowerCase();
}

const EXPOSED = "X-Request-Id, Retry-After, X-Should-Retry, X-Millrace-Unenforced";

export function corsHeaders(origin: string | undefined, { origins }: PagePolicy): HeaderRecord {
  if (origin === undefined) return {};
  if (origins.includes("*")) {
    return { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": EXPOSED };
  }
  if (!origins.includes(origin)) return { Vary: "Origin" };
  return { "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED, Vary: "Origin" };
}

/** Headers that identify the app's own pages; other pages may never send them. */
const OWN_HEADERS = ["x-csrf-token", "x-forwarded-host"];

function grantable(requestedHeaders: string | undefined): string | undefined {
  const names = requestedHeaders?.split(",").filter((name) => !OWN_HEADERS.includes(name.trim().toLowerCase()));
  return names?.join(",");
}

/** A preflight's answer; a disallowed origin gets no permission, and the browser stops there. */
export function preflightHeaders(
  origin: string | undefined,
  requestedHeaders: string | undefined,
  policy: PagePolicy,
): HeaderRecord {
  const base = corsHeaders(origin, policy);
  if (base["Access-Control-Allow-Origin"] === undefined) return base;
  return {
    ...base,
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    // A wildcard never covers Authorization, so the requested names are granted by name.
    "Access-Control-Allow-Headers": grantable(requestedHeaders) ?? "Authorization, Content-Type, X-Request-Id",
    "Access-Control-Max-Age": "86400",
  };
}
