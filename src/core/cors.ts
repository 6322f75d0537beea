/** Which web pages may use a server from their visitors' browsers. Headers are kept as a plain record because streamed answers are written past Hono. */
import { isIP } from "node:net";
import { MillraceError } from "./errors.js";
import { isLoopback } from "./loopback.js";

export type HeaderRecord = Readonly<Record<string, string>>;

export interface PagePolicy {
  /** Origins whose pages may call; `*`: any. Credentials (cookies) are never allowed. */
  readonly origins: readonly string[];
  /** Requests of other pages are refused, not only kept from being read: where there are no keys, nothing else tells them from their visitors' own. */
  readonly refusesOthers: boolean;
  /** Only this machine can connect, so a public name in Host is one that a page has pointed here. */
  readonly isLoopback: boolean;
}

/** Every page may do everything. */
export const ANY_PAGE: PagePolicy = { origins: ["*"], refusesOthers: false, isLoopback: false };

/** @param said the origins that are configured; undefined: with keys any, which need a key like everybody, without keys the server's own pages alone */
export function pagePolicy(said: readonly string[] | undefined, hasKeys: boolean, host: string): PagePolicy {
  const origins = said ?? (hasKeys ? ["*"] : []);
  return { origins, refusesOthers: !hasKeys && !origins.includes("*"), isLoopback: isLoopback(host) };
}

/** What a browser says of the page that asks. */
export interface Asking {
  readonly origin?: string | undefined;
  /** As the browser's address bar has it. */
  readonly host?: string | undefined;
}

/** Throws `forbidden` for pages that may not call. Whoever is no browser sends no Origin, and an address or a name of this machine. */
export function assertPageAllowed(policy: PagePolicy, { origin, host = "" }: Asking): void {
  if (!policy.refusesOthers || (origin !== undefined && policy.origins.includes(origin))) return;
  const isOwn = origin === undefined || hostOf(origin) === host.toLowerCase();
  if (!isOwn) throw refused("a page of this server, or of an origin it allows", `one of ${origin.slice(0, 80)}`);
  const isNamed = policy.origins.some((allowed) => hostOf(allowed) === host.toLowerCase());
  if (!policy.isLoopback || isNamed || isLocalName(host)) return;
  throw refused("a local name in Host, or that of an origin it allows", host.slice(0, 80));
}

function refused(expected: string, got: string): MillraceError {
  return new MillraceError("forbidden", `expected ${expected}, got ${got}`, {
    hint: "give the server keys (--api-key; in a fleet's file api-keys), or name the origin in --allowed-origins (there allowed-origins)",
  });
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

/** One that no public name server answers for: pages cannot have pointed it here. */
function isLocalName(host: string): boolean {
  const name = host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  return isIP(name) !== 0 || /^[^.]*$/.test(name) || /\.(?:localhost|local|internal)$/i.test(name);
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

/** A preflight's answer; an origin that is not allowed gets no permission and the browser stops there. */
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
    // Authorization is never covered by a wildcard, so the asked-for names are granted by name.
    "Access-Control-Allow-Headers": requestedHeaders ?? "Authorization, Content-Type, X-Request-Id",
    "Access-Control-Max-Age": "86400",
  };
}
